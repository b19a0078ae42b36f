"""Training in a separate process with the command of the documentation."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Event, Lock, Thread

from mmengine.config import Config

from cvrl_mm.io import end_with_parent

LOG = 'log.txt'
SAVING_SECONDS = 60  # time for the last checkpoint of an interrupted training
_running: list[subprocess.Popen] = []
_starting, _ending = Lock(), Event()  # no training is started after _ending


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
    with _starting:
        if _ending.is_set():
            raise RuntimeError('This process is ending and starts no more trainings.')
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


@contextmanager
def training_pool(num_workers: int) -> Iterator[ProcessPoolExecutor]:
    """Make a pool of processes that call :func:`training_process`.

    If the block raises an error, for example by Ctrl-C, tasks that wait are not begun, and the
    workers end with their trainings, which write a checkpoint before. They do the same if this
    process is killed.

    Args:
        num_workers: Number of processes.

    Yields:
        The pool.
    """
    with ProcessPoolExecutor(num_workers, get_context('spawn'), initializer=_start_worker) as pool:
        try:
            yield pool
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would cut this short
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.terminate()
            raise


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the parent sends SIGTERM
    # A thread, because this one may hold a lock of the process for which it waits
    signal.signal(signal.SIGTERM, lambda *_: Thread(target=_end_worker, daemon=True).start())
    end_with_parent(_end_trainings)


def _end_worker() -> None:
    _end_trainings()
    os._exit(128 + signal.SIGTERM)  # the pool would catch an exception and begin another task


def _end_trainings() -> None:
    with _starting:
        _ending.set()
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(SAVING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
