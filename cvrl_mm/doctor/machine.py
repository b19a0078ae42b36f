"""GPUs, NCCL and shared memory."""

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from mmengine.config import Config

from .finding import Finding

GIB = 2**30
PREFETCH_FACTOR = 2  # torch's default
FIRST_WITH_BFLOAT16 = 8  # compute capability: Ampere


def check_gpus() -> list[Finding]:
    """Name the GPUs, and see that torch can use them."""
    if not torch.cuda.is_available():
        if shutil.which('nvidia-smi') and torch.version.cuda is None:
            advice = 'install a torch that is compiled for CUDA (pytorch.org)'
            return [Finding('problem', 'GPU', 'there is a driver, but torch has no CUDA', advice)]
        return [Finding('note', 'GPU', 'none; all runs on the CPU', 'fit for tests and miniatures')]
    found = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        seen = f'{device.name}, {device.total_memory / GIB:.0f} GiB'
        if device.major >= FIRST_WITH_BFLOAT16:
            found.append(Finding('ok', f'GPU {index}', seen))
        else:
            advice = "set optim_wrapper.type='AmpOptimWrapper' (float16) or 'OptimWrapper'"
            found.append(Finding('note', f'GPU {index}', f'{seen}, slow in bfloat16', advice))
    return [*found, check_nccl()]


def check_nccl() -> Finding:
    """See that several GPUs can talk to each other."""
    if not dist.is_available() or not dist.is_nccl_available():
        advice = "one GPU works; for several install a torch with NCCL, or env_cfg's backend='gloo'"
        return Finding('problem', 'NCCL', 'not in this torch', advice)
    return Finding('ok', 'NCCL', '.'.join(map(str, torch.cuda.nccl.version())))


def check_shared_memory(
    config: Config | None, ranks: int, place: Path = Path('/dev/shm')
) -> list[Finding]:
    """See that the batches that wait for the model fit.

    Loader processes hand their batches over in shared memory; containers often come with
    64 MiB of it.

    Args:
        config: Of a training run; without it the need is not known.
        ranks: Processes on this machine that train.
        place: Where shared memory is mounted.
    """
    if not place.is_dir():
        return [Finding('note', 'shared memory', f'there is no {place} to look at')]
    free = shutil.disk_usage(place).free
    seen = f'{free / GIB:.1f} GiB free'
    waiting = waiting_bytes(config) if config is not None else None
    need = GIB if waiting is None else waiting * ranks
    if waiting is not None:
        seen += f', up to {need / GIB:.1f} GiB needed'
    elif config is not None:
        seen += '; its pipeline does not tell how much is needed'
    if free >= need:
        return [Finding('ok', 'shared memory', seen)]
    advice = 'docker run --ipc=host (or --shm-size), or lower train_dataloader.num_workers'
    return [Finding('problem', 'shared memory', seen, advice)]


def waiting_bytes(config: Config) -> int | None:
    """Size of one rank's batches that are loaded and not yet used, at most; None if not known."""
    loader = config.train_dataloader
    sample = sample_bytes(loader.dataset.pipeline)
    num_workers = loader.get('num_workers', 0)
    prefetch = loader.get('prefetch_factor', PREFETCH_FACTOR)
    return None if sample is None else loader.batch_size * sample * num_workers * prefetch


def sample_bytes(pipeline: list[dict]) -> int | None:
    """Size of one sample, uint8, by what its pipeline says of frames and their size."""
    clips, frames, height, width = 1, 1, 0, 0
    for step in pipeline:
        if step['type'].endswith('TemporalIntervalSample'):
            clips, frames = 2, step['clip_len']
        elif 'clip_len' in step:
            clips, frames = step.get('num_clips', 1), step['clip_len']
        for inner in [step, *step.get('transforms', [])]:
            if inner['type'] == 'Resize' and min(inner['scale']) > 0:
                width, height = inner['scale']
            size = inner.get('size', inner.get('crop_size'))
            if inner['type'].endswith('Crop') and size is not None:
                width, height = (size, size) if isinstance(size, int) else size
    return clips * frames * height * width * 3 or None
