"""Train loops that load all epochs with one set of workers and note signals to end."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from multiprocessing import parent_process
from types import FrameType
from typing import Any

import torch
from mmengine.dist import broadcast_object_list, get_rank, get_world_size
from mmengine.logging import print_log
from mmengine.registry import LOOPS
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner
from mmengine.runner.base_loop import BaseLoop
from torch.utils.data import DataLoader

from ..datasets.seeding import SeededBatches, seed_generators
from .checkpoint import AtomicCheckpointHook
from .steps import BadVideosHook

MODEL = 1000  # last number of the key for the model; the keys of samples have 0 to 20 there
NAMES = ('SIGTERM', 'SIGUSR1', 'SIGHUP', 'SIGINT')
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
MANY_WORKERS = 8  # of which each needs no more than one batch ahead, in shared memory


class _Seeded(BaseLoop):
    """What both loops have in common.

    The draws of a sample depend on (seed, epoch, index) if the dataset supports
    :class:`SampleIndex`, like ``VideoListDataset``. The draws of the model, such as dropout, depend
    on (seed, rank, step). The loader is built as usual, but its workers load the batches of all
    epochs (:class:`SeededBatches`) from the step on at which the run begins or resumes;
    ``persistent_workers`` has no effect. A :class:`BadVideosHook` is added if the config has none,
    because ``VideoListDataset`` then replaces videos that cannot be read.

    Attributes:
        signals: The signals to end that this process has received, see :func:`noted_signals`.

    Raises:
        ValueError: The loader has a batch sampler of its own, or no batch.
    """

    _iter: int
    _max_iters: int
    signals: list[int]

    def __init__(self, runner: Runner, dataloader: dict, *args: Any, **kwargs: Any) -> None:
        if not any(isinstance(hook, BadVideosHook) for hook in runner.hooks):
            runner.register_hook(BadVideosHook())  # the dataset replaces unreadable videos
        if 'batch_sampler' in dataloader:
            raise ValueError('Seeded loops make the batches; leave out batch_sampler.')
        batches = dict(type=SeededBatches, drop_last=dataloader.get('drop_last', False))
        changes = dict(batch_sampler=batches, drop_last=False, persistent_workers=False)
        workers = dataloader.get('num_workers', 0)
        if workers == 0:
            changes['timeout'] = 0  # torch refuses another one
        elif workers >= MANY_WORKERS:
            changes['prefetch_factor'] = 1
        BaseLoop.__init__(self, runner, {**dataloader, **changes})
        loader: Any = self.dataloader
        loader.__class__ = _LazyLoader
        if len(loader) == 0:
            size = dataloader['batch_size'] * get_world_size()
            raise ValueError(
                f'The training list holds {len(loader.dataset)} videos, fewer than one batch of '
                f'{size}; lower train_dataloader.batch_size or give more videos.'
            )
        super().__init__(runner, loader, *args, **kwargs)

    def run(self) -> Any:
        """Train to the end, or until a hook ends the run after a signal."""
        if self._iter >= self._max_iters:
            text = f'The training is finished: {self._iter} of {self._max_iters} steps are done.'
            print_log(text, 'current')
        outlive_signals(self.dataloader)
        if self.runner.val_loop is not None:
            outlive_signals(self.runner.val_dataloader)
        seeds = [self.runner.seed]
        broadcast_object_list(seeds)  # diff_rank_seed adds the rank
        self.seed = seeds[0]
        batches = self.dataloader.batch_sampler
        batches.seed, batches.step, batches.num_steps = self.seed, self._iter, self._max_iters
        asked = self.runner.cfg.get('randomness', {}).get('seed')
        if asked is None and hasattr(batches.sampler, 'seed'):
            batches.sampler.seed = self.seed  # mmengine draws another one at each start
        self._start(copied_ahead(self.dataloader))
        saves = any(isinstance(hook, AtomicCheckpointHook) for hook in self.runner.hooks)
        with noted_signals(SIGNALS if saves else []) as self.signals:
            try:
                return super().run()
            finally:
                self._start(iter(()))  # ends the workers

    def run_iter(self, *args: Any) -> None:
        """Train for a step."""
        seed_generators(self.seed, get_rank(), self._iter, MODEL)
        super().run_iter(*args)

    def _start(self, batches: Iterator) -> None:
        raise NotImplementedError


class _LazyLoader(DataLoader):
    """A loader that starts its workers, and draws their seed, when the first batch is needed.

    mmengine's loop by steps iterates when it is built, before the weights are drawn.
    """

    def __iter__(self) -> Any:
        yield from super().__iter__()


@LOOPS.register_module()
class SeededEpochLoop(_Seeded, EpochBasedTrainLoop):
    """An ``EpochBasedTrainLoop`` without pauses between epochs, which also resumes within an epoch.

    See :class:`_Seeded` for the draws and the loader.
    """

    def run_epoch(self) -> None:
        """Train for an epoch, or for the rest of it after a resumption."""
        self.runner.call_hook('before_train_epoch')
        self.runner.model.train()
        steps = len(self.dataloader)
        for step in range(self._iter - self._epoch * steps, steps):
            self.run_iter(step, next(self._batches))
        self.runner.call_hook('after_train_epoch')
        self._epoch += 1

    def _start(self, batches: Iterator) -> None:
        self._batches = batches


@LOOPS.register_module()
class SeededIterLoop(_Seeded, IterBasedTrainLoop):
    """An ``IterBasedTrainLoop`` that resumes without loading the batches of earlier steps.

    See :class:`_Seeded` for the draws and the loader.
    """

    def _start(self, batches: Iterator) -> None:
        # mmengine takes and drops a batch for each earlier step
        self.dataloader_iterator = chain(repeat(None, self._iter), batches)


def copied_ahead(batches: Iterable[dict]) -> Iterator[dict]:
    """Copy the inputs of each batch to the GPU while the step before it runs; on a CPU do nothing.

    A batch in page-locked memory is copied by a stream of its own. It is kept on the host until the
    copy has finished, because it may lie in memory that the workers use again.
    """
    if not torch.cuda.is_available():
        yield from batches
        return
    stream, ahead = torch.cuda.Stream(), None
    for batch in chain(batches, [None]):
        following = None
        if batch is not None and isinstance(batch.get('inputs'), torch.Tensor):
            with torch.cuda.stream(stream):
                copy = batch['inputs'].to('cuda', non_blocking=True)
                following = batch, {**batch, 'inputs': copy}, stream.record_event()
        elif batch is not None:  # a list of tensors: the preprocessor copies it
            following = batch, batch, None
        if ahead is not None:
            _, on_device, copied = ahead
            if copied is not None:
                copied.wait()
                on_device['inputs'].record_stream(torch.cuda.current_stream())
            yield on_device
            if copied is not None:
                copied.synchronize()
        ahead = following


@contextmanager
def noted_signals(signals: list[int]) -> Iterator[list[int]]:
    """Collect signals in a list, instead of ending the process.

    A second Ctrl-C raises ``KeyboardInterrupt``.
    """
    received: list[int] = []
    process, previous = os.getpid(), {}

    def note(signum: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # forked, as for the evaluation of AVA
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        elif signum == signal.SIGINT and signum in received:
            raise KeyboardInterrupt
        else:
            received.append(signum)

    if threading.current_thread() is threading.main_thread():  # Python allows no other thread
        for signum in signals:
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                previous[signum] = signal.signal(signum, note)
    try:
        yield received
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def outlive_signals(loader: DataLoader) -> None:
    """Let the workers of a loader survive the signals of :func:`noted_signals`.

    Slurm, ``timeout``, container engines and terminals send them to all processes of a job. Workers
    would end, so that the training process could not complete its step. They still end with that
    process, and when it sends them SIGTERM.
    """
    if loader.num_workers > 0:
        loader.worker_init_fn = partial(_init_worker, loader.worker_init_fn)


def _init_worker(init: Callable[[int], None] | None, worker_id: int) -> None:
    for signum in SIGNALS:
        if signum != signal.SIGTERM:
            signal.signal(signum, signal.SIG_IGN)
    if hasattr(signal, 'sigwaitinfo'):  # not on macOS
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # also in later threads
        parent = parent_process()
        assert parent is not None
        threading.Thread(target=_end_when_told, args=(parent.pid,), daemon=True).start()
    if init is not None:
        init(worker_id)


def _end_when_told(parent: int | None) -> None:
    """Wait in a thread, which a decoder that hangs does not block."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
