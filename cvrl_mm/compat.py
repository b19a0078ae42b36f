"""Workarounds for the stack under this package, each with its reason.

Tested are Python 3.13 with torch 2.15 and numpy 2, and Python 3.10 with torch 2.6 and numpy 1. Each
function does nothing where it is not needed, so that an existing MMAction2 setup behaves as before
when it imports this package. The operators for AVA detection are in ``mmcv_ops.py``.
"""

import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

# Beginnings of warnings at the start of every program, about which a user can do nothing
WARNINGS = (
    'Fail to import ``MultiScaleDeformableAttention`` from',  # mmcv-lite
    '`TorchScript` support for functional optimizers is deprecated',  # mmengine on torch 2.6
    'pkg_resources is deprecated as an API',  # mmengine and mim
    'Multi-processing start method `fork` is different from',  # mmengine, of its own setting
    'Setting OMP_NUM_THREADS environment variable',  # mmengine, with several ranks
    'Setting MKL_NUM_THREADS environment variable',
    '`broadcast_buffers` is deprecated',  # mmengine on torch 2.15, with several ranks
    'The current default scope "',  # mmaction2, if another package of OpenMMLab came first
)


def apply() -> None:
    """Put in place what the installed stack needs. Must run before ``mmaction.models`` loads."""
    hide_warnings()
    require_mmcv()
    stand_in_for_drn()
    leave_out_multimodal()
    names_of_numpy_1()
    know_our_configs()
    train_macs_on_the_cpu()


def hide_warnings() -> None:
    """Do not display the listed warnings, unless the user's own filters, as of ``-W``, match."""
    for beginning in WARNINGS:
        warnings.filterwarnings('ignore', re.escape(beginning), append=True)


def require_mmcv() -> None:
    """Say which mmcv to install where there is none.

    Raises:
        ImportError: neither mmcv nor mmcv-lite is installed.
    """
    if importlib.util.find_spec('mmcv') is None:
        raise ImportError(
            'cvrl_mm needs mmcv, and none is installed: run "pip install mmcv-lite==2.1.0" '
            'or the compiled "mmcv==2.1.0".'
        )


def stand_in_for_drn() -> None:
    """Let ``import mmaction.models`` succeed where the wheel lacks ``localizers/drn``.

    Upstream: open-mmlab/mmaction2#2714, the wheel of 1.2.0.
    """
    import mmaction

    name = 'mmaction.models.localizers.drn'
    if (Path(mmaction.__file__).parent / 'models' / 'localizers' / 'drn').is_dir():
        return

    class DRN:
        """Stands where MMAction2's dense regression network is missing from its wheel."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            raise ImportError('The wheel of mmaction2 lacks DRN (open-mmlab/mmaction2#2714).')

    package, module = ModuleType(name), ModuleType(f'{name}.drn')
    vars(package).update(__path__=[], drn=module)
    vars(module).update(DRN=DRN)
    sys.modules.update({package.__name__: package, module.__name__: module})


def leave_out_multimodal() -> None:
    """Let ``import mmaction.models`` succeed where its multimodal models cannot be imported.

    It imports them wherever transformers is installed. They need timm, and names that transformers
    4.56 has no longer. Without them, it registers stand-ins.
    """
    from mmaction.utils import dependency

    if dependency.WITH_MULTIMODAL:
        is_new = dependency.satisfy_requirement('transformers>=4.56.0')
        dependency.WITH_MULTIMODAL = not is_new and importlib.util.find_spec('timm') is not None


# Names that numpy 2 has removed, and where the evaluation of mmaction2 1.2 uses them
NUMPY_1_NAMES = dict(in1d='isin', trapz='trapezoid', Inf='inf', NAN='nan')
NUMPY_1_USERS = (
    'mmaction.evaluation.functional.accuracy',
    'mmaction.evaluation.functional.ava_evaluation.metrics',
)


def names_of_numpy_1() -> None:
    """Let MMAction2's metrics run under numpy 2; numpy itself stays as it is."""
    import numpy as np

    if hasattr(np, 'NAN'):
        return

    class NumPy(ModuleType):
        """numpy with the names of its version 1."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, NUMPY_1_NAMES.get(name, name))

    for user in NUMPY_1_USERS:
        importlib.import_module(user).np = NumPy('numpy')  # type: ignore[attr-defined]


def know_our_configs() -> None:
    """Let a config inherit from ``'cvrl_mm::…'``, whose bare names are MMAction2's.

    Upstream: open-mmlab/mmengine#1410, a fixed table of packages. mmengine would look for the
    configs beside the package's metadata, where an editable install has none, and would note the
    package as the scope of every dict with a ``type``, which breaks a loader's ``collate_fn``.
    """
    from mmengine.config import Config
    from mmengine.config.utils import MODULE2PACKAGE
    from mmengine.utils import check_file_exist

    MODULE2PACKAGE['cvrl_mm'] = 'cvrl_mm'
    find = Config._get_cfg_path
    configs = Path(__file__).parent / '.mim' / 'configs'

    def find_ours(cfg_path: str, filename: str) -> tuple[str, str | None]:
        package, separator, name = cfg_path.partition('::')
        if package != 'cvrl_mm' or not separator:
            return find(cfg_path, filename)
        check_file_exist(str(configs / name))
        return str(configs / name), None

    Config._get_cfg_path = staticmethod(find_ours)


def train_macs_on_the_cpu() -> None:
    """Keep mmengine from the GPU of a Mac.

    torch computes batch norm and 3D convolutions incorrectly there (pytorch#175189, #197114).
    """
    from mmengine.device import utils

    utils.DEVICE = utils.DEVICE.replace('mps', 'cpu')
