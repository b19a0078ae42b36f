"""Record when, from which commit and on which machine a result was measured."""

import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import torch

from cvrl_mm.io import usable_cores


def origin(repository: Path) -> dict[str, str]:
    """Describe the present day, code and machine, on which rounding and thus results depend.

    Args:
        repository: A folder of the code.

    Returns:
        ``date`` (UTC), ``commit``, ``machine`` and ``torch``.
    """
    return {
        'date': str(datetime.now(timezone.utc).date()),
        'commit': _commit(repository),
        'machine': torch.cuda.get_device_name() if torch.cuda.is_available() else _cpu(),
        'torch': torch.__version__,
    }


def _cpu() -> str:
    info = Path('/proc/cpuinfo')
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return f'{names[0] if names else platform.machine()}, {usable_cores()} cores'


def _commit(repository: Path) -> str:
    """Describe the current commit and whether files differ from it."""
    command = ['git', '-C', str(repository), 'describe', '--always', '--dirty']
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return 'not in a git repository'
