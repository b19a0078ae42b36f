"""Check compiled parts and known incompatibilities of the installed versions."""

import importlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from mmaction.evaluation.functional import accuracy
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.model import MMDistributedDataParallel
from mmengine.runner import Runner
from mmengine.utils import digit_version

from cvrl_mm import compat
from cvrl_mm.torchvision_ops import torchvision_ops

from .finding import Finding


def check_compiled() -> list[Finding]:
    """Report for which devices torch and mmcv were compiled."""
    cuda = torch.version.cuda
    torch_line = f'compiled for CUDA {cuda}' if cuda else 'compiled only for the CPU'
    return [Finding('ok', 'torch', torch_line), *check_cudnn(), check_mmcv_ops()]


def check_cudnn() -> list[Finding]:
    """Find versions of torch and cuDNN with which Conv3d in bfloat16 does not use cuDNN.

    torch 2.9 does not use cuDNN 9.8 to 9.14 for it, because the results were wrong
    (pytorch#163539). This is slower and takes more memory (pytorch#166643).
    """
    if torch.version.cuda is None or not torch.__version__.startswith('2.9.'):
        return []
    version = torch.backends.cudnn.version() or 0
    seen = f'torch {torch.__version__}, cuDNN {version // 10000}.{version // 100 % 100}'
    if 90800 <= version < 91500:
        advice = (
            "pip install 'nvidia-cudnn-cu12>=9.15' or another torch; bfloat16 is slow with this"
        )
        return [Finding('note', 'Conv3d in bfloat16', f'{seen}: not run by cuDNN', advice)]
    return [Finding('ok', 'Conv3d in bfloat16', seen)]


def check_mmcv_ops() -> Finding:
    """Check whether the operators for detection are installed, on a GPU also for CUDA."""
    if importlib.util.find_spec('mmcv._ext') is None:
        try:
            torchvision_ops()
        except RuntimeError as error:
            return Finding('note', 'mmcv operators', 'none; only for AVA detection', str(error))
        return Finding('ok', 'mmcv operators', "mmcv-lite; AVA detection uses torchvision's")
    try:
        ops = importlib.import_module('mmcv.ops')
    except ImportError as error:
        advice = 'build mmcv again against the installed torch (docs/troubleshooting.md)'
        return Finding('problem', 'mmcv operators', f'do not load: {error}', advice)
    compiled_for = ops.get_compiling_cuda_version()
    if torch.cuda.is_available() and compiled_for == 'not available':
        advice = 'AVA detection on the GPU needs mmcv built with FORCE_CUDA=1'
        return Finding('note', 'mmcv operators', 'compiled only for the CPU', advice)
    return Finding('ok', 'mmcv operators', f'compiled, CUDA {compiled_for}')


def check_breakages() -> list[Finding]:
    """Check that each known incompatibility of the installed versions is worked around."""
    drn = sys.modules.get('mmaction.models.localizers.drn')
    new_torch = digit_version(torch.__version__) >= digit_version('2.6')
    on_cpu = get_device() == 'cpu'
    found = [
        check_workaround(
            'mmaction2 without localizers/drn (mmaction2#2714)',
            present=drn is not None and not hasattr(drn, '__file__'),
            covered=True,
        ),
        check_workaround(
            'resume under torch >= 2.6 (mmengine#1655)',
            present=new_torch,
            covered=is_ours(Runner.resume),
        ),
        check_workaround(
            "_base_ = 'cvrl_mm::...' (mmengine#1410)",
            present=True,
            covered=is_ours(Config._get_cfg_path),
        ),
        check_workaround(
            'several ranks without a GPU',
            present=on_cpu,
            covered=is_ours(MMDistributedDataParallel.__init__),
        ),
        check_workaround(
            "mmaction2's evaluation under numpy 2",
            present=digit_version(np.__version__) >= digit_version('2'),
            covered=hasattr(accuracy.np, 'in1d'),
        ),
    ]
    return [*found, *check_place_for_mim()]


def check_workaround(name: str, present: bool, covered: bool) -> Finding:
    """Return the finding on one incompatibility."""
    if not present:
        return Finding('ok', name, 'not in this stack')
    if covered:
        return Finding('ok', name, 'present, and covered by cvrl_mm.compat')
    return Finding('problem', name, 'present, and not covered', 'import cvrl_mm first')


def is_ours(function: object) -> bool:
    """Return whether a function has been replaced by this package."""
    return str(getattr(function, '__module__', '')).startswith('cvrl_mm.')


def check_place_for_mim() -> list[Finding]:
    """Check that mim finds the package beside its metadata; editable installs need a link."""
    # Not in sys.path[0], which may be the repository with its egg-info; mim does not look there
    found = next(iter(metadata.distributions(name='cvrl_mm', path=sys.path[1:])), None)
    if found is None:
        seen = 'mim does not find cvrl_mm, which is only on the PYTHONPATH'
        return [Finding('note', 'mim', seen, 'pip install . to run "mim train cvrl_mm"')]
    beside = Path(str(found.locate_file('cvrl_mm')))
    if beside.exists():
        return [Finding('ok', 'mim', f'finds cvrl_mm in {beside}')]
    package = Path(compat.__file__).resolve().parent
    advice = f'ln -s {package} {beside}'
    return [Finding('note', 'mim', 'does not find editable installs without a link', advice)]
