"""Checks of the installation, the machine and a config: ``cvrl doctor``.

Each finding is ok, a note on a limitation, or a problem with a remedy.
"""

import importlib
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from mmaction.registry import DATASETS
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.logging import MMLogger
from packaging.requirements import Requirement

from .engine.checks import rate_advice
from .processes import usable_cores
from .runtime import missing_files, read_config
from .synthetic.motion import encode
from .text import one_line, type_name

MIM = Path(__file__).parent / '.mim'
GIB = 1 << 30
STEP_SECONDS_PER_VIDEO = 0.342 / 96  # R3D-50, compiled, on an H100 (docs/speed.md)
MORE_SHARED_MEMORY = 'docker run --ipc=host (or --shm-size), or fewer workers'
FIRST_WITH_BFLOAT16 = 8  # compute capability: Ampere
ARCHITECTURE = re.compile(r'(sm|compute)_(\d+)(\d)')
FOR_OLD_GPUS = (  # pytorch#157517, #172352, #190385
    "install a torch of CUDA 12.6, which has it: pip install 'torch<2.15' --index-url "
    'https://download.pytorch.org/whl/cu126'
)
FOR_NEW_GPUS = "install a newer torch: pip install --upgrade 'torch>=2.7'"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        status: 'ok', 'note' for a limitation, or 'problem' for something that does not work.
        name: What was checked.
        seen: What was found.
        advice: What to do; empty if nothing needs to be done.
    """

    status: str
    name: str
    seen: str
    advice: str = ''

    def __str__(self) -> str:
        arrow = f' -> {self.advice}' if self.advice else ''
        return f'{self.status:<8}{self.name}: {self.seen}{arrow}'


def report(config: str | None = None, ranks: int | None = None) -> int:
    """Run all checks and print their findings.

    Args:
        config: Path of a training config to check as well.
        ranks: Number of processes of the training. Default: one per GPU.

    Returns:
        The exit code: 1 if there is a problem, else 0.

    Raises:
        OSError, ValueError: The config cannot be read.
    """
    ranks = ranks or max(torch.cuda.device_count(), 1)
    cfg = None if config is None else read_config(config, 'train_dataloader', 'optim_wrapper')
    register_all_modules()
    MMLogger.get_current_instance().setLevel('ERROR')  # only the report is displayed
    findings = [*check_versions(MIM / 'constraints.txt'), *check_machine(), check_decoding()]
    if cfg is not None:
        findings += [*check_files(cfg), *check_card(cfg)]
        findings += [check_learning_rate(cfg, ranks), check_loader(cfg, ranks)]
    print(*findings, sep='\n')
    count = Counter(finding.status for finding in findings)
    print(f'ok: {count["ok"]}, notes: {count["note"]}, problems: {count["problem"]}')
    return int(count['problem'] > 0)


def check_versions(tested: Path) -> Iterator[Finding]:
    """Compare the installed packages with a constraints file, and check mmcv.

    Packages that are not installed are left out: without a required one, nothing is imported.
    """
    installed = set()
    lines = [line for line in tested.read_text().splitlines() if line and line[0] != '#']
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue  # for other versions of Python
        name = requirement.name
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        installed.add(name)
        if requirement.specifier.contains(found, prereleases=True):
            yield Finding('ok', name, f'{found}, as tested')
        else:
            seen = f'{found}, not tested; the tests run with {requirement.specifier}'
            advice = f"if something fails: pip install '{name}{requirement.specifier}'"
            yield Finding('note', name, seen, advice)
    if {'mmcv', 'mmcv-lite'} <= installed:
        advice = 'pip uninstall -y mmcv mmcv-lite, then install the one you want'
        yield Finding('problem', 'mmcv', 'mmcv and mmcv-lite overwrite each other', advice)
    if find_spec('mmcv._ext') is not None:
        try:
            importlib.import_module('mmcv._ext')
        except ImportError as error:  # such as an undefined symbol
            advice = 'build mmcv again for the installed torch (docs/install.md)'
            yield Finding('problem', 'mmcv operators', one_line(error), advice)


def check_machine() -> Iterator[Finding]:
    """Check the GPUs and the shared memory, in which workers send batches."""
    yield from check_gpus()
    if Path('/dev/shm').is_dir():
        free = shutil.disk_usage('/dev/shm').free / GIB
        status, advice = ('ok', '') if free >= 1 else ('problem', MORE_SHARED_MEMORY)
        yield Finding(status, 'shared memory', f'{free:.1f} GiB free', advice)


def check_gpus() -> Iterator[Finding]:
    """Check that torch sees the GPUs of the machine, has code for them, and convolves rightly."""
    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    if not cards:
        yield _no_gpu()
        return
    # Machine code (sm) runs on later cards of its generation, intermediate code on all later ones
    names = torch.cuda.get_arch_list() or (torch._C._cuda_getArchFlags() or '').split()
    codes = [ARCHITECTURE.match(name) for name in names]
    built = [(code[1], [int(code[2]), int(code[3])]) for code in codes if code]
    for (card, memory, *has), count in Counter(
        (x.name, x.total_memory, x.major, x.minor) for x in cards
    ).items():
        seen = f'{count} x {card} ({memory / GIB:.0f} GiB)'
        runs = [arch <= has and (kind != 'sm' or arch[0] == has[0]) for kind, arch in built]
        if built and not any(runs):
            seen = f'torch {torch.__version__} has no code for {seen}, compute capability '
            is_old = has < min(arch for _, arch in built)
            advice = FOR_OLD_GPUS if is_old else FOR_NEW_GPUS
            yield Finding('problem', 'GPU', seen + '.'.join(map(str, has)), advice)
        elif has[0] < FIRST_WITH_BFLOAT16:
            advice = "bfloat16 is slow: set optim_wrapper.type='AmpOptimWrapper' (float16)"
            yield Finding('note', 'GPU', seen, advice)
        else:
            yield Finding('ok', 'GPU', seen)
    cudnn = torch.backends.cudnn.version() or 0
    if 90800 <= cudnn < 91500:  # pytorch#163539, #166643, #174051
        status, fault = 'note', 'slow by a factor of 10 and more where clips are not channels last'
        if torch.__version__ < '2.9':
            status, fault = 'problem', 'wrong results are known for large inputs'
        seen = f'cuDNN {cudnn // 10000}.{cudnn // 100 % 100}, torch {torch.__version__}: {fault}'
        advice = "pip install 'torch>=2.10', or cuDNN of at least 9.15"
        yield Finding(status, '3D convolutions in bfloat16', seen, advice)


def _no_gpu() -> Finding:
    if not shutil.which('nvidia-smi'):
        return Finding('note', 'GPU', 'none', 'a CPU suffices for small encoders')
    if os.environ.get('CUDA_VISIBLE_DEVICES') in ('', '-1'):
        return Finding('note', 'GPU', 'hidden', 'unset CUDA_VISIBLE_DEVICES to use it')
    reason = 'it finds none'
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:  # also of a torch without CUDA
        reason = one_line(error)
    seen = f'nvidia-smi is installed, but torch {torch.__version__} sees no GPU: {reason}'
    advice = (
        'install a torch for the CUDA version that nvidia-smi names (pytorch.org), or update the '
        'driver'
    )
    return Finding('problem', 'GPU', seen, advice)


def check_decoding() -> Finding:
    """Write a video, and load it with the pre-training pipeline."""
    pipeline = Compose(
        Config.fromfile(MIM / 'configs/_base_/datasets/kinetics_cvrl.py')['train_pipeline']
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            filename = Path(folder, 'video.mp4')
            encode(filename, np.zeros((64, 128, 128, 3), np.uint8))
            sample = pipeline(dict(filename=str(filename), label=-1, start_index=0, modality='RGB'))
    except (OSError, RuntimeError, ValueError) as error:
        advice = 'reinstall av and opencv at the tested versions (constraints.txt)'
        return Finding('problem', 'decode and augment', one_line(error), advice)
    return Finding('ok', 'decode and augment', 'x'.join(map(str, sample['inputs'].shape)))


def check_files(config: Config) -> list[Finding]:
    """Check that the lists and checkpoints of a config exist."""
    return [
        Finding(
            'problem',
            'checkpoint' if key.endswith(('checkpoint', 'load_from')) else 'list',
            f'{path} does not exist',
            f'make it (docs/kinetics.md, docs/data.md), or set {key}',
        )
        for key, path in missing_files(config)
    ]


def check_card(config: Config) -> Iterator[Finding]:
    """Check that a config that trains in half precision has a GPU."""
    kind = type_name(config.optim_wrapper)
    if kind.startswith(('Autocast', 'Amp')) and not torch.cuda.is_available():
        advice = 'run it on a machine with a GPU; a CPU would take months'
        yield Finding('problem', 'GPU for this config', f'none for optim_wrapper={kind}', advice)


def check_learning_rate(config: Config, ranks: int) -> Finding:
    """Compare the number of videos per step with the one that the learning rate is for."""
    wrapper, batch_size = config.optim_wrapper, config.train_dataloader.batch_size
    batch = ranks * batch_size * wrapper.get('accumulative_counts', 1)
    seen = f'{wrapper.optimizer.lr:g} with {batch} videos per step'
    advice = rate_advice(config, ranks)
    if not (config.get('auto_scale_lr') or {}).get('base_batch_size'):
        advice = 'set auto_scale_lr.base_batch_size to the batch size of this learning rate'
    return Finding('note' if advice else 'ok', 'learning rate', seen, advice)


def check_loader(config: Config, ranks: int, seconds: float = 10.0) -> Finding:
    """Load samples for some seconds, and compare the workers with cores and shared memory."""
    loader = config.train_dataloader
    workers, cores = max(loader.get('num_workers', 0), 1), usable_cores()
    try:
        dataset = DATASETS.build(loader.dataset)
        start, loaded = time.perf_counter(), 0
        while loaded < min(64, len(dataset)) and time.perf_counter() - start < seconds:
            sample = dataset[loaded * len(dataset) // 64 if len(dataset) > 64 else loaded]
            loaded += 1
        rate = loaded / (time.perf_counter() - start)
    except (OSError, RuntimeError, ValueError) as error:
        advice = 'prepare the data (docs/data.md)'
        return Finding('problem', 'loader', f'not measured: {error}', advice)
    if len(dataset) < loader.batch_size * ranks:
        seen = f'{len(dataset)} videos are fewer than a batch of {ranks} x {loader.batch_size}'
        return Finding('problem', 'loader', seen, 'lower train_dataloader.batch_size')
    every = loader.batch_size / max(rate, 1e-9) / min(workers, cores / ranks)
    seen = (
        f'{rate:.1f} videos per second on one core ({loaded} loaded); {workers} workers on '
        f'{cores / ranks:g} cores per rank deliver a batch of {loader.batch_size} every '
        f'{every:.1f} s at best'
    )
    waiting = ranks * loader.get('num_workers', 0) * (loader.get('prefetch_factor') or 2)
    needed = waiting * loader.batch_size * sample['inputs'].nbytes
    if Path('/dev/shm').is_dir() and needed > (free := shutil.disk_usage('/dev/shm').free):
        seen = (
            f'the {waiting} batches of all workers take up to {needed / GIB:.1f} GiB of shared '
            f'memory, of which {free / GIB:.1f} GiB are free'
        )
        return Finding('problem', 'loader', seen, MORE_SHARED_MEMORY)
    if workers * ranks > cores:
        advice = f'there are fewer cores than workers ({ranks} x {workers}): see docs/speed.md'
        return Finding('note', 'loader', seen, advice)
    step = loader.batch_size * STEP_SECONDS_PER_VIDEO
    if torch.cuda.is_available() and config.model.backbone.get('depth') == 50 and every > step:
        advice = (
            f'for a step of {step:.1f} s, as on an H100, give each rank '
            f'{loader.batch_size / rate / step:.0f} cores and workers. Repacked videos need about '
            'half of them, and with colour and blur on the GPU a third (docs/speed.md)'
        )
        return Finding('note', 'loader', seen, advice)
    return Finding('ok', 'loader', seen)
