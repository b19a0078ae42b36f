"""Checks of GPUs, NCCL, memory, open files and shared memory."""

import math
import resource
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from mmengine.config import Config

from cvrl_mm.datasets.sample_shape import sample_shape
from cvrl_mm.models.r3d_slow import MAX_ELEMENTS
from cvrl_mm.models.training_memory import (
    GIB,
    USABLE_SHARE,
    TrainingMemory,
    exceeds_indices,
    memory_advice,
    training_memory,
)

from .finding import Finding

PREFETCH_FACTOR = 2  # torch's default
FILES_OF_A_PROCESS = 200  # libraries, logs, pipes to the workers; an upper bound
FILES_PER_STACKED_BATCH = 4
FIRST_WITH_BFLOAT16 = 8  # compute capability: Ampere


def check_gpus() -> list[Finding]:
    """List the GPUs and check that torch can use them."""
    if not torch.cuda.is_available():
        if shutil.which('nvidia-smi') and torch.version.cuda is None:
            advice = 'install a torch that is compiled for CUDA (pytorch.org)'
            return [Finding('problem', 'GPU', 'torch was built without CUDA', advice)]
        return [Finding('note', 'GPU', 'none', 'a CPU suffices for small encoders')]
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
    """Check that several GPUs can communicate."""
    if not dist.is_available() or not dist.is_nccl_available():
        advice = "one GPU works; for several install a torch with NCCL, or env_cfg's backend='gloo'"
        return Finding('problem', 'NCCL', 'not in this torch', advice)
    return Finding('ok', 'NCCL', '.'.join(map(str, torch.cuda.nccl.version())))


def check_memory(config: Config) -> list[Finding]:
    """Compare a training step with the memory of the smallest GPU and with 32-bit indices.

    Args:
        config: A training config.
    """
    memory = training_memory(config)
    if memory is None:
        return [Finding('note', 'GPU memory', 'not known for this model or pipeline')]
    return [_compare_with_cards(config, memory), _compare_with_indices(config, memory)]


def _compare_with_cards(config: Config, memory: TrainingMemory) -> Finding:
    name = 'GPU memory'
    seen = f'{memory} needed per GPU by count'
    if not torch.cuda.is_available():
        return Finding('ok', name, f'{seen}; there is no GPU to compare with')
    cards = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    total = min(card.total_memory for card in cards)
    seen += f', {total / GIB:.1f} GiB on the card'
    limit = USABLE_SHARE * total
    if memory.total <= limit:
        return Finding('ok', name, seen)
    status = 'problem' if memory.total > total else 'note'
    return Finding(status, name, seen, memory_advice(config, limit))


def _compare_with_indices(config: Config, memory: TrainingMemory) -> Finding:
    name = 'largest tensor'
    batch = config.train_dataloader.batch_size
    videos = min(config.model.get('chunk_size') or batch, batch)
    fitting = (MAX_ELEMENTS - 1) * videos // memory.largest_tensor
    seen = f'{memory.largest_tensor:,} elements for {videos} videos'
    if memory.largest_tensor < MAX_ELEMENTS:
        return Finding('ok', name, seen)
    seen += ', too many for 32-bit indices; some CUDA kernels are slower or fail'
    status = 'problem' if exceeds_indices(config, memory) else 'note'
    if fitting < 1:
        return Finding(status, name, seen, 'use shorter or smaller clips')
    advice = f'at most {fitting} videos per GPU'
    if config.model.type == 'CVRL':
        advice += f', or model.chunk_size={fitting}'
    if status == 'problem':
        advice += ', or model.backbone.channels_last=False'
    return Finding(status, name, seen, advice)


def check_open_files(config: Config) -> Finding:
    """Compare the number of files that waiting batches keep open with the limit of a process.

    Workers send each tensor in a separate block of shared memory, which is an open file of the
    training process.

    Args:
        config: A training config.
    """
    loader = config.train_dataloader
    separate = loader.get('collate_fn', {}).get('type') == 'pseudo_collate'
    per_batch = loader.batch_size if separate else FILES_PER_STACKED_BATCH
    batches = loader.get('num_workers', 0) * loader.get('prefetch_factor', PREFETCH_FACTOR)
    need = FILES_OF_A_PROCESS + batches * per_batch
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = f'up to {need} of {limit} allowed'
    if limit == resource.RLIM_INFINITY or need <= limit:
        return Finding('ok', 'open files', seen)
    advice = f'ulimit -n {2 * need}, or lower train_dataloader.num_workers'
    return Finding('problem', 'open files', seen, advice)


def check_shared_memory(
    config: Config | None, ranks: int, place: Path = Path('/dev/shm')
) -> list[Finding]:
    """Check that waiting batches fit into shared memory.

    Workers send batches in shared memory, of which containers often have only 64 MiB.

    Args:
        config: A training config. Without it, 1 GiB is required.
        ranks: Number of training processes on this machine.
        place: Mount point of shared memory.
    """
    if not place.is_dir():
        return [Finding('note', 'shared memory', f'there is no {place} to check')]
    free = shutil.disk_usage(place).free
    seen = f'{free / GIB:.1f} GiB free'
    waiting = waiting_bytes(config) if config is not None else None
    need = GIB if waiting is None else waiting * ranks
    if waiting is not None:
        seen += f', up to {need / GIB:.1f} GiB needed'
    elif config is not None:
        seen += '; the need is unknown for this pipeline'
    if free >= need:
        return [Finding('ok', 'shared memory', seen)]
    advice = 'docker run --ipc=host (or --shm-size), or lower train_dataloader.num_workers'
    return [Finding('problem', 'shared memory', seen, advice)]


def waiting_bytes(config: Config) -> int | None:
    """Return the maximal size of the batches in shared memory per rank, or None if unknown.

    Each worker keeps the batches that it loads in advance. With ``stack_collate``, it also keeps
    the memory of one more batch, which the training process may still use.
    """
    loader = config.train_dataloader
    shape = sample_shape(loader.dataset.pipeline) if 'pipeline' in loader.dataset else None
    num_workers = loader.get('num_workers', 0)
    batches = loader.get('prefetch_factor', PREFETCH_FACTOR)
    if shape is None:
        return None
    if loader.get('collate_fn', {}).get('type') == 'stack_collate':
        batches += 1
    return loader.batch_size * 3 * math.prod(shape) * num_workers * batches
