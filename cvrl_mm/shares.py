"""The share of the work and of the machine that belongs to this process."""

import os
from collections.abc import Mapping


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    A Slurm job or a container may be bound to fewer cores than the machine has, or may have a quota
    of CPU time (``docker run --cpus``, the CPU limit of a Kubernetes pod), which is rounded up.
    """
    from joblib import cpu_count  # takes 0.3 seconds

    return cpu_count()


def local_processes() -> int:
    """Return the number of processes of this job on this machine, as torchrun states it."""
    return int(os.environ.get('LOCAL_WORLD_SIZE', 1))


def cores_per_process() -> int:
    """Return the number of cores for each process of this job on this machine, at least 1."""
    return max(1, usable_cores() // local_processes())


def rank_and_size(env: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Read the rank of this process and the number of processes from the environment.

    These variables are used, in this order: ``RANK`` and ``WORLD_SIZE`` (torchrun);
    ``SLURM_ARRAY_TASK_ID`` and the other variables of a Slurm array; ``SLURM_PROCID`` and
    ``SLURM_NTASKS`` (srun). Without any of them, the rank is 0 of 1.

    Args:
        env: The environment. Default: the environment of this process.

    Raises:
        ValueError: The variables contradict each other.
    """
    env = os.environ if env is None else env

    def read(name: str, default: int | None = None) -> int:
        try:
            return int(env[name]) if default is None else int(env.get(name, default))
        except (KeyError, ValueError):
            raise ValueError(
                f'The environment variable {name} must be an integer, got {env.get(name)!r}.'
            ) from None

    if 'RANK' in env and 'WORLD_SIZE' in env:
        rank, size = read('RANK'), read('WORLD_SIZE')
    elif 'SLURM_ARRAY_TASK_ID' in env:
        step = read('SLURM_ARRAY_TASK_STEP', 1)
        first = read('SLURM_ARRAY_TASK_MIN', 0)
        rank, size = (read('SLURM_ARRAY_TASK_ID') - first) // step, read('SLURM_ARRAY_TASK_COUNT')
    elif 'SLURM_STEP_ID' in env and 'SLURM_PROCID' in env:
        rank, size = read('SLURM_PROCID'), read('SLURM_NTASKS', 1)
    else:
        return 0, 1
    if not 0 <= rank < size:
        raise ValueError(
            f'The environment gives rank {rank} of {size}; a Slurm array must be evenly spaced, '
            'such as --array=0-7.'
        )
    return rank, size
