"""Processes: ranks and cores."""

import os
from collections.abc import Mapping


def usable_cores() -> int:
    """Return the number of cores that this process may use, within the limits of its container."""
    from joblib import cpu_count  # takes 0.3 seconds

    return cpu_count()


def cores_per_process() -> int:
    """Return the number of cores for each process that torchrun has started here, at least 1."""
    return max(1, usable_cores() // int(os.environ.get('LOCAL_WORLD_SIZE', 1)))


def rank_and_size(env: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Read the rank of this process and the number of processes from the environment.

    These variables are used, in this order: ``RANK`` and ``WORLD_SIZE`` (torchrun);
    ``SLURM_ARRAY_TASK_ID`` and the other variables of a Slurm array; ``SLURM_PROCID`` and
    ``SLURM_NTASKS`` (srun). Without any of them, the rank is 0 of 1.

    Raises:
        ValueError: A variable is not an integer, or the rank is not below the number.
    """
    if 'RANK' in env and 'WORLD_SIZE' in env:
        rank, size = int(env['RANK']), int(env['WORLD_SIZE'])
    elif 'SLURM_ARRAY_TASK_ID' in env:
        rank = int(env['SLURM_ARRAY_TASK_ID']) - int(env.get('SLURM_ARRAY_TASK_MIN', 0))
        size = int(env.get('SLURM_ARRAY_TASK_COUNT', 1))
    elif 'SLURM_STEP_ID' in env and 'SLURM_PROCID' in env:
        rank, size = int(env['SLURM_PROCID']), int(env.get('SLURM_NTASKS', 1))
    else:
        return 0, 1
    if not 0 <= rank < size:
        raise ValueError(
            f'The environment gives rank {rank} of {size}; a Slurm array must be like --array=0-7.'
        )
    return rank, size


def is_torchrun(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether torchrun, or a launcher like it, has started this process."""
    return 'RANK' in env and 'LOCAL_RANK' in env
