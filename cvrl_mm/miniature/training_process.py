"""Training in a process of its own, by the command that a user would give."""

import os
import subprocess
import sys
from pathlib import Path

from mmengine.config import Config

LOG = 'log.txt'


def start_training(
    config: Config, folder: Path, repository: Path, num_threads: int, *arguments: str
) -> subprocess.Popen:
    """Start ``tools/train.py``; its output goes to ``log.txt`` in the work folder.

    Args:
        config: What to train; it is written to ``config.py`` in the work folder.
        folder: The work folder; it is made.
        repository: The folder that holds ``tools``.
        num_threads: OpenMP threads of the process.
        arguments: Further arguments of ``tools/train.py``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config.dump(folder / 'config.py')
    paths = [str(repository), os.environ.get('PYTHONPATH', '')]
    environment = dict(
        os.environ, PYTHONPATH=os.pathsep.join(paths), OMP_NUM_THREADS=str(num_threads)
    )
    command = [sys.executable, f'{repository}/tools/train.py', f'{folder}/config.py']
    with (folder / LOG).open('w') as output:
        return subprocess.Popen(
            [*command, '--work-dir', str(folder), *arguments],
            env=environment,
            stdout=output,
            stderr=output,
        )
