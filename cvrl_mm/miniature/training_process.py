"""Training in a separate process with the command of the documentation."""

import os
import subprocess
import sys
from pathlib import Path

from mmengine.config import Config

LOG = 'log.txt'


def start_training(
    config: Config, folder: Path, repository: Path, num_threads: int, *arguments: str
) -> subprocess.Popen:
    """Start ``tools/train.py`` with its output in ``log.txt`` of the work folder.

    Args:
        config: Config of the training; it is written to ``config.py`` in the work folder.
        folder: The work folder, which is created.
        repository: The folder that contains ``tools``.
        num_threads: Number of OpenMP threads of the process.
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
