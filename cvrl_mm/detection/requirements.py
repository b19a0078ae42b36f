"""Check on import that the packages for AVA detection are installed."""

import importlib.util

from ..torchvision_ops import torchvision_ops

if importlib.util.find_spec('mmcv._ext') is None:
    torchvision_ops()
missing = [name for name in ('mmdet', 'av') if importlib.util.find_spec(name) is None]
if missing:
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        f'AVA detection needs {" and ".join(missing)}: run '
        '"pip install -c constraints.txt \'.[lite,detection]\'" in the repository of cvrl_mm.'
    )
