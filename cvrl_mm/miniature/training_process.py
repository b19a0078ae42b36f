"""Training in a separate process with the command of the documentation."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmengine.config import Config

LOG = 'log.txt'
SAVING_SECONDS = 60  # time for the last checkpoint of an interrupted training
_running: list[subprocess.Popen] = []


@contextmanager
def training_process(
    config: Config, folder: Path, repository: Path, num_threads: int, *arguments: str
) -> Iterator[subprocess.Popen]:
    """Run ``tools/train.py`` with its output in ``log.txt`` of the work folder.

    If the block ends before the training, for example by Ctrl-C, the training is ended, too; it
    writes a checkpoint before.

    Args:
        config: Config of the training; it is written to ``config.py`` in the work folder.
        folder: The work folder, which is created.
        repository: The folder that contains ``tools``.
        num_threads: Number of OpenMP threads of the process.
        arguments: Further arguments of ``tools/train.py``.

    Yields:
        The process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config.dump(folder / 'config.py')
    paths = [str(repository), os.environ.get('PYTHONPATH', '')]
    environment = dict(
        os.environ, PYTHONPATH=os.pathsep.join(paths), OMP_NUM_THREADS=str(num_threads)
    )
    command = [sys.executable, f'{repository}/tools/train.py', f'{folder}/config.py']
    with (folder / LOG).open('w') as output:
        process = subprocess.Popen(
            [*command, '--work-dir', str(folder), *arguments],
            env=environment,
            stdout=output,
            stderr=output,
        )
    _running.append(process)
    try:
        yield process
    finally:
        _end(process)
        _running.remove(process)


def end_trainings() -> None:
    """End the trainings of this process; each writes a checkpoint before."""
    for process in _running:
        _end(process)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(SAVING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
