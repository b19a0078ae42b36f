"""Choose settings that save memory."""

import math
import os
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..models.training_memory import GIB, USABLE_SHARE, memory_saving, training_memory
from .settings import Setting

USABLE_SHARE_OF_RAM = 0.5  # the rest is for the workers and other programs


def usable_bytes(local_ranks: int) -> float:
    """Return the number of bytes that a rank may use on its GPU, or on the CPU without one."""
    if torch.cuda.is_available():
        return USABLE_SHARE * torch.cuda.get_device_properties(0).total_memory
    if 'SC_PHYS_PAGES' not in getattr(os, 'sysconf_names', {}):
        return math.inf
    ram = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return USABLE_SHARE_OF_RAM * min(ram, memory_limit()) / local_ranks


def memory_limit(root: Path = Path('/')) -> float:
    """Return the limit of this process's control group in bytes, or infinity without a limit.

    Containers and Slurm jobs have such a limit. The kernel kills a process that exceeds it, however
    much memory the machine has.

    Args:
        root: Root of the file system.
    """
    try:
        groups = (root / 'proc/self/cgroup').read_text().splitlines()
    except OSError:  # not Linux
        return math.inf
    limits = [math.inf]
    for group in groups:
        _, controllers, path = group.split(':', 2)
        if controllers == '':  # version 2
            mount, name = root / 'sys/fs/cgroup', 'memory.max'
        elif controllers == 'memory':  # version 1
            mount, name = root / 'sys/fs/cgroup/memory', 'memory.limit_in_bytes'
        else:
            continue
        # The limits of the groups above apply, too. In a container, the mount is its own group, and
        # the path may not exist.
        folder = mount / path.lstrip('/')
        for file in (parent / name for parent in (folder, *folder.parents)):
            if file.is_file() and (limit := file.read_text().strip()) != 'max':
                limits.append(int(limit))
    return min(limits)


def choose_memory(config: Config, limit: float) -> Setting:
    """Choose options that save memory, if they are needed.

    Args:
        config: Config of the training without such options.
        limit: Number of bytes that a rank may use.

    Returns:
        Settings of the model's config, with the calculated memory as the reason.

    Raises:
        ValueError: No option saves enough memory.
    """
    nothing: dict[str, Any] = {}
    memory = training_memory(config)
    if memory is None:
        return Setting(nothing, 'the memory is not known')
    if memory.total <= limit:
        return Setting(nothing, f'{memory.total / GIB:.1f} GiB fit into the memory')
    saving = memory_saving(config, limit)
    if saving is None:
        raise ValueError(
            f'The training needs {memory.total / GIB:.1f} GiB, and {limit / GIB:.1f} GiB can be '
            'used; give a smaller --batch-size, --size or --encoder.'
        )
    options, less = saving
    reason = f'{less.total / GIB:.1f} GiB in place of {memory.total / GIB:.1f} GiB'
    return Setting(options, f'{reason}, of which {limit / GIB:.1f} GiB can be used')
