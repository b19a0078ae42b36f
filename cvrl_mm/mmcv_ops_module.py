"""A replacement of the module ``mmcv.ops`` for mmcv-lite.

mmdet imports ``mmcv.ops``, which needs compiled code that mmcv-lite does not contain. The
replacement has the operators of :mod:`.mmcv_ops`. All other names of ``mmcv.ops`` can be imported
and raise an error when they are used.

``compat.py`` decides whether :func:`install` is called.
"""

import importlib
import sys
from types import ModuleType

from torch import nn

from .mmcv_ops import ADVICE, RoIAlign, RoIPool, batched_nms, nms, roi_align, roi_pool

# Submodules from which mmcv, mmdet 3.1 to 3.3 and mmaction2 1.2 import names
SUBMODULES = (
    'carafe',
    'merge_cells',
    'modulated_deform_conv',
    'multi_scale_deform_attn',
    'nms',
    'roi_align',
    'roi_pool',
)


def install() -> None:
    """Replace the module ``mmcv.ops`` and its submodules."""
    ops = _Operators('mmcv.ops', 'Operators of cvrl_mm.mmcv_ops for mmcv-lite.')
    ours = (RoIAlign, RoIPool, batched_nms, nms, roi_align, roi_pool)
    vars(ops).update(__path__=[], __file__=__file__, **{op.__name__: op for op in ours})
    sys.modules['mmcv.ops'] = ops
    for name in SUBMODULES:
        sys.modules[f'mmcv.ops.{name}'] = ops
    importlib.import_module('mmcv').ops = ops  # type: ignore[attr-defined]
    transformer = sys.modules.get('mmcv.cnn.bricks.transformer')
    if transformer:  # loaded earlier without the name that mmdet imports from it
        transformer.MultiScaleDeformableAttention = (  # type: ignore[attr-defined]
            ops.MultiScaleDeformableAttention
        )


class _Operators(ModuleType):
    """A module whose missing names are operators that raise an error on use."""

    def __getattr__(self, name: str) -> type:
        if name.startswith('__'):
            raise AttributeError(f'module {self.__name__!r} has no attribute {name!r}')

        class Missing(nn.Module):
            """An operator of the compiled mmcv."""

            def __init__(self, *args: object, **kwargs: object) -> None:
                raise NotImplementedError(f'mmcv-lite has no operator {name}. {ADVICE}')

        Missing.__name__ = Missing.__qualname__ = name
        setattr(self, name, Missing)  # always the same class, so that isinstance works
        return Missing
