"""Check on import that the packages for AVA detection are installed."""

import importlib.util

from ..torchvision_ops import torchvision_ops

without_ops = importlib.util.find_spec('mmcv._ext') is None
needed = ('mmdet', 'av', 'torchvision') if without_ops else ('mmdet', 'av')
missing = [name for name in needed if importlib.util.find_spec(name) is None]
if missing and missing != ['torchvision']:
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        f'AVA detection needs {" and ".join(missing)}: run '
        '"pip install -c constraints.txt \'.[lite,detection]\'" in the repository of cvrl_mm.'
    )
if without_ops:
    torchvision_ops()  # raises an error if torchvision does not match torch
