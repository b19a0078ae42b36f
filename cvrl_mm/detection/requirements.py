"""Check on import that the packages for AVA detection are installed."""

import importlib.util

missing = [name for name in ('mmdet', 'av') if importlib.util.find_spec(name) is None]
if importlib.util.find_spec('mmcv._ext') is None:
    if importlib.util.find_spec('torchvision') is None:
        missing.append('torchvision')
    else:
        from cvrl_mm.torchvision_ops import torchvision_ops

        torchvision_ops()
if missing:
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        f'AVA detection needs {" and ".join(missing)}: run '
        f'"pip install {" ".join(missing)}" ("mmdet==3.3.0" for mmcv 2.1).'
    )
