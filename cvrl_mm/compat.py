"""Workarounds for the stack under this package, each with its reason and its end.

Each function checks whether the installed versions need it and otherwise changes nothing, so that
an existing MMAction2 setup behaves as before when it imports this package. What is a choice and
not a workaround is not here: see ``weights_only.py`` and ``engine/lazy_loader.py``.
"""

import importlib.util
import os
import pkgutil
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any


def apply() -> None:
    """Put in place what the installed stack needs. Must run before ``mmaction.models`` loads."""
    from . import cpu_ranks

    require_mmcv()
    stand_in_for_drn()
    find_loaders()
    operators_from_torchvision()
    names_of_numpy_1()
    know_our_configs()
    resume_from_own_checkpoints()
    interrupt_formatting_of_configs()
    avoid_mps()
    cpu_ranks.run_ranks_on_cpu()
    keep_batch_norm_asynchronous()
    wait_before_forks_of_ranks()
    find_the_meta_device()


def avoid_mps() -> None:
    """Let mmengine use the CPU of Macs.

    It would choose their GPU (MPS), for which torch 2.7 still lacks ``max_pool3d``
    (pytorch/pytorch#158723), and on which this package has never been run. Ends when it has been.
    """
    from mmengine.device import utils

    if utils.DEVICE == 'mps':
        utils.DEVICE = 'cpu'


def find_the_meta_device() -> None:
    """Let activations be recomputed on the meta device, where memory is counted.

    torch before 2.5 looks for a module of each device's name in ``torch``, and meta has none.
    """
    import torch
    from mmengine.utils import digit_version

    if digit_version(torch.__version__) < digit_version('2.5') and not hasattr(torch, 'meta'):
        torch.meta = torch.cpu  # type: ignore[attr-defined]  # of an older torch


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

    Upstream: open-mmlab/mmaction2#2714, the wheel of 1.2.0. Ends with a wheel that has it.
    """
    spec = importlib.util.find_spec('mmaction')
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            'cvrl_mm needs mmaction2, and none is installed: run "pip install mmaction2==1.2.0".'
        )
    root = Path(spec.submodule_search_locations[0])
    name = 'mmaction.models.localizers.drn'
    if (root / 'models' / 'localizers' / 'drn').is_dir() or name in sys.modules:
        return

    class DRN:
        """Stands where MMAction2's dense regression network is missing from its wheel."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            raise ImportError(
                'The installed mmaction2 lacks DRN (open-mmlab/mmaction2#2714); '
                'install mmaction2 from its source to use it.'
            )

    package, module = ModuleType(name), ModuleType(f'{name}.drn')
    vars(package).update(__path__=[], drn=module)
    vars(module).update(DRN=DRN)
    sys.modules.update({package.__name__: package, module.__name__: module})


def find_loaders() -> None:
    """Let mmengine and mmcv look for mmcv's compiled operators on Python 3.14.

    They call ``pkgutil.find_loader``, which 3.14 has removed. Ends with an mmengine that calls
    ``importlib.util.find_spec``.
    """
    if hasattr(pkgutil, 'find_loader'):
        return

    def find_loader(name: str) -> Any:
        spec = importlib.util.find_spec(name)
        return spec and spec.loader

    pkgutil.find_loader = find_loader  # type: ignore[assignment]


def operators_from_torchvision() -> None:
    """Let mmdet, and with it AVA detection, work with mmcv-lite.

    mmcv-lite has no compiled operators, and mmdet does not load without them. ``mmcv_ops`` takes
    their place if mmdet and torchvision are there. A compiled mmcv is left alone. Ends when mmdet
    no longer needs mmcv's operators.
    """
    if importlib.util.find_spec('mmcv._ext') or 'mmcv.ops' in sys.modules:
        return
    if importlib.util.find_spec('mmdet') and importlib.util.find_spec('torchvision'):
        from . import mmcv_ops_module

        mmcv_ops_module.install()


# Names that numpy 2 has removed, the modules of mmaction2 1.2 that use them, and their successors.
NUMPY_1_USERS = (
    'mmaction.datasets.transforms.pose_transforms',
    'mmaction.evaluation.functional.accuracy',
    'mmaction.evaluation.functional.ava_evaluation.metrics',
    'mmaction.evaluation.metrics.multimodal_metric',
    'mmaction.utils.misc',
)
NUMPY_1_NAMES = dict(in1d='isin', trapz='trapezoid', Inf='inf', NAN='nan')


def names_of_numpy_1() -> None:
    """Let MMAction2's evaluation run under numpy 2, which has removed names that it uses.

    These modules get a ``np`` that also has the names; numpy itself stays as it is. Ends with an
    mmaction2 that supports numpy 2 (1.2.0 was its last release before that).
    """
    import numpy as np

    if all(hasattr(np, name) for name in NUMPY_1_NAMES):
        return

    class NumPy(ModuleType):
        """numpy with the names of its version 1."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, NUMPY_1_NAMES.get(name, name))

    numpy = NumPy('numpy')
    for user in NUMPY_1_USERS:
        importlib.import_module(user).np = numpy  # type: ignore[attr-defined]


def know_our_configs() -> None:
    """Let a config inherit from ``'cvrl_mm::…'``, whose bare names are MMAction2's.

    Upstream: open-mmlab/mmengine#1410, a fixed table of packages. mmengine also takes the
    package's name for a scope of registries, which it notes in every dict with a ``type``: ours
    set ``default_scope``, and a loader's ``collate_fn`` does not bear the note. And it looks for
    the package beside its metadata, where an editable install does not have it.
    """
    from mmengine.config import Config
    from mmengine.config.utils import MODULE2PACKAGE
    from mmengine.utils import check_file_exist

    MODULE2PACKAGE.setdefault('cvrl_mm', 'cvrl_mm')
    if _is_ours(Config._get_cfg_path):
        return
    find = Config._get_cfg_path
    configs = Path(__file__).parent / '.mim' / 'configs'

    def find_ours(cfg_path: str, filename: str) -> tuple[str, str | None]:
        package, separator, name = cfg_path.partition('::')
        if package != 'cvrl_mm' or not separator:
            return find(cfg_path, filename)
        path = str(configs / name)
        check_file_exist(path)
        return path, None

    Config._get_cfg_path = staticmethod(find_ours)


def resume_from_own_checkpoints() -> None:
    """Let ``--resume`` read the log history that the runner has written.

    torch 2.6 and later load weights only, and mmengine stores its message hub in the checkpoint
    (open-mmlab/mmengine#1655). ``Runner.resume`` on a local file also accepts that history. It
    runs no other code, unless the user has set ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD``. Ends with
    an mmengine that stores plain values.
    """
    import torch
    from mmengine.runner import Runner
    from mmengine.utils import digit_version

    if digit_version(torch.__version__) < digit_version('2.6') or _is_ours(Runner.resume):
        return
    resume = Runner.resume

    def resume_local(self: Runner, filename: str, *args: object, **kwargs: object) -> None:
        if '://' in str(filename):
            return resume(self, filename, *args, **kwargs)
        with torch.serialization.safe_globals(log_history()):
            return resume(self, filename, *args, **kwargs)

    Runner.resume = resume_local


def log_history() -> list:
    """What mmengine's log history consists of, by its names under numpy 1 and 2."""
    import pickle

    import numpy as np
    from mmengine.logging import HistoryBuffer

    def method(owner: object, name: str) -> object:  # in place of getattr on any object
        if owner is not HistoryBuffer:
            raise pickle.UnpicklingError(f'getattr of {owner}')
        return getattr(owner, name)

    rebuild_array, rebuild_scalar = np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]
    names = [
        (function, f'numpy.{core}.multiarray.{name}')
        for core in ('core', '_core')
        for function, name in ((rebuild_array, '_reconstruct'), (rebuild_scalar, 'scalar'))
    ]
    dtypes = [type(np.dtype(kind)) for kind in ('f4', 'f8', 'i4', 'i8')]
    return [HistoryBuffer, np.ndarray, np.dtype, *dtypes, (method, 'builtins.getattr'), *names]


def interrupt_formatting_of_configs() -> None:
    """Let Ctrl-C end a program while mmengine formats a config, which takes seconds at each start.

    ``Config.pretty_text`` of mmengine 0.10 turns every exception, ``KeyboardInterrupt`` too, into a
    ``SyntaxError`` that contains the whole config. Ends with an mmengine that does not.
    """
    from mmengine.config import Config

    pretty_text = Config.pretty_text.fget
    if _is_ours(pretty_text):
        return

    def interruptible_text(self: Config) -> str:
        try:
            return pretty_text(self)
        except SyntaxError as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    Config.pretty_text = property(interruptible_text)


def keep_batch_norm_asynchronous() -> None:
    """Let ``SyncBatchNorm`` not wait for the GPU in each forward pass.

    Upstream: pytorch/pytorch#78656. torch drops the statistics of ranks with an empty batch by a
    mask that the host reads, except while a CUDA graph is captured. In training with a batch
    on each rank there is nothing to drop.
    """
    import torch
    from torch import Tensor, nn

    if not torch.cuda.is_available() or _is_ours(nn.SyncBatchNorm.forward):
        return
    sync_forward, is_capturing = nn.SyncBatchNorm.forward, torch.cuda.is_current_stream_capturing

    def forward_without_mask(self: nn.SyncBatchNorm, input: Tensor) -> Tensor:
        torch.cuda.is_current_stream_capturing = lambda: True
        try:
            return sync_forward(self, input)
        finally:
            torch.cuda.is_current_stream_capturing = is_capturing

    nn.SyncBatchNorm.forward = forward_without_mask  # type: ignore[method-assign]  # to replace it


def wait_before_forks_of_ranks() -> None:
    """Keep loader workers that are forked right after a collective from hanging.

    Upstream: python/cpython#112275, in Python 3.10 and in 3.11 before September 2024. A child
    hangs in ``PyOS_AfterFork_Child`` if a thread of gloo was entering Python when the process was
    forked. These threads are idle a moment after a collective, so that a rank waits before it
    forks. Ends with support for Python 3.11.
    """
    global _waits_before_forks
    if sys.version_info < (3, 12) and hasattr(os, 'register_at_fork') and not _waits_before_forks:
        os.register_at_fork(before=_wait_in_a_rank)
        _waits_before_forks = True


_waits_before_forks = False  # such a handler cannot be removed


def _wait_in_a_rank() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        time.sleep(0.05)


def _is_ours(function: object) -> bool:
    """Whether this module has put ``function`` in place already."""
    return getattr(function, '__module__', None) == __name__
