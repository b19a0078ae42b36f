"""Load mmdet, and with it the parts of MMAction2 that need it."""

import importlib
import importlib.util

from mmaction.models import roi_heads, task_modules

from ..mmcv_ops import install

if importlib.util.find_spec('mmdet') is None:
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        'AVA detection needs mmdet: run "pip install -c constraints.txt \'.[lite,detection]\'" in '
        'the repository of cvrl_mm.'
    )
install()
for module in (roi_heads, task_modules):  # without mmcv.ops, they have registered nothing
    if not hasattr(module, '__all__'):
        importlib.reload(module)
