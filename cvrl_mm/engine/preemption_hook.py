"""Save a checkpoint on preemption, before a time limit and on Ctrl-C."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import torch
from mmengine.dist import all_reduce, barrier, get_world_size
from mmengine.hooks import Hook, LoggerHook
from mmengine.registry import HOOKS
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch.utils.data import get_worker_info

from .atomic_checkpoint_hook import AtomicCheckpointHook
from .worker_signals import outlive_sigterm

PREEMPTED_CODE = 75  # EX_TEMPFAIL of sysexits.h: start it again
REACTION_SECONDS = 10  # torchrun kills its ranks 30 seconds after a signal
INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells report Ctrl-C
NAMES = ('SIGTERM', 'SIGUSR1', 'SIGINT')
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


@HOOKS.register_module()
class PreemptionHook(Hook):
    """Save a checkpoint and end the run when the process receives a signal.

    On SIGTERM (preemption, ``kill``), SIGUSR1 (Slurm, ahead of a time limit) or SIGINT (Ctrl-C),
    the run writes ``preempted_STEP.pth`` after the current training or validation step and ends
    with exit code 75, or 130 after Ctrl-C. ``--resume`` continues with the next batch, also within
    an epoch, and gives the same weights as a run without interruption. The next regular
    checkpoint replaces the file. A second Ctrl-C ends the run immediately.

    Loader workers receive these signals as well, because they belong to the same process group.
    They continue, so that the step can be completed. Other forked processes end as usual.

    This hook needs :class:`AtomicCheckpointHook` and, to continue within an epoch,
    :class:`SampleSeedHook`.

    Args:
        interval: Largest number of steps between two exchanges of ranks, which must all save at
            the same step. It is lowered to the steps of ten seconds. Default: the interval of the
            log, because a logged step waits for the device in any case. A single process reacts
            after each step.
        continue_with: Description in the log of how to continue the run.

    Raises:
        ValueError: ``interval`` is below 1.
    """

    priority = 'LOWEST'  # after all hooks that change the state in a step

    def __init__(self, interval: int | None = None, continue_with: str = '--resume') -> None:
        if interval is not None and interval < 1:
            raise ValueError(f'interval counts steps and must be at least 1, got {interval}.')
        self.interval = interval
        self.continue_with = continue_with
        self._signum = 0  # the signal that this process has received
        self._previous: dict[int, Any] = {}

    def before_train(self, runner: Runner) -> None:
        """Install the signal handlers, which workers inherit.

        Loader workers replace the handler of SIGTERM by torch's; ``outlive_sigterm`` keeps them
        alive.
        """
        hooks = [hook for hook in runner.hooks if isinstance(hook, AtomicCheckpointHook)]
        if not hooks or threading.current_thread() is not threading.main_thread():
            return  # Python handles signals in the main thread only
        self._checkpoints = hooks[0]
        if self.interval is None:
            intervals = [h.interval for h in runner.hooks if isinstance(h, LoggerHook)]
            self.interval = intervals[0] if intervals else 1
        self._steps, self._asked, self._every = 0, time.monotonic(), self.interval
        outlive_sigterm(runner.train_dataloader)
        if runner.val_loop is not None:
            outlive_sigterm(runner.val_dataloader)
        self._pid = os.getpid()
        self._loop = runner.train_loop
        for signum in SIGNALS:
            # A shell starts background jobs with SIGINT ignored
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                self._previous[signum] = signal.signal(signum, self._handle)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, *args: object, **kwargs: object
    ) -> None:
        """End the run after the step if a rank has received a signal.

        Raises:
            SystemExit: The checkpoint is written.
        """
        step = runner.iter + 1
        accumulates = step % getattr(runner.optim_wrapper, '_accumulative_counts', 1)
        if step >= runner.max_iters or accumulates or not self._has_signal():
            return
        meta: dict[str, int] = {}
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            loader = runner.train_dataloader
            meta['steps_in_epoch'] = getattr(loader, 'position', batch_idx + 1)
            meta['steps_per_epoch'] = len(loader)
        self._end(runner, step, meta)

    def after_val_iter(
        self, runner: Runner, batch_idx: int, *args: object, **kwargs: object
    ) -> None:
        """End the run within a validation if a rank has received a signal.

        Raises:
            SystemExit: The checkpoint is written.
        """
        in_training = self._previous and 0 < runner.iter < runner.max_iters
        if in_training and self._has_signal():
            self._end(runner, runner.iter, {})

    def after_train(self, runner: Runner) -> None:
        """Restore the signal handlers."""
        self._restore()

    def _restore(self) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous.clear()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            if get_worker_info() is None:  # a process of a pool, for example of AVA's evaluation
                signal.signal(signum, signal.SIG_DFL)
                os.kill(os.getpid(), signum)
            return
        while frame is not None and frame.f_locals.get('self') is not self._loop:
            frame = frame.f_back
        if frame is None:  # an error has ended the training; then mmengine calls no hook
            self._restore()
            os.kill(self._pid, signum)
            return
        if signum == signal.SIGINT and self._signum == signum:
            raise KeyboardInterrupt
        self._signum = signum

    def _has_signal(self) -> bool:
        """Return whether any rank has received a signal."""
        if not self._previous:
            return False
        if get_world_size() > 1:
            self._steps += 1
            if self._steps < self._every:
                return False
            seconds = (time.monotonic() - self._asked) / self._steps
            state = torch.tensor([self._signum, seconds])
            all_reduce(state, 'max')
            self._signum, seconds = int(state[0]), float(state[1])
            most = self.interval or 1
            self._every = max(1, int(min(most, REACTION_SECONDS / max(seconds, 1e-3))))
            self._steps, self._asked = 0, time.monotonic()
        return self._signum != 0

    def _end(self, runner: Runner, step: int, meta: dict[str, int]) -> None:
        path = self._checkpoints.save_out_of_turn(runner, runner.epoch, step, meta)
        barrier()  # a launcher ends all ranks as soon as one has ended
        name = signal.Signals(self._signum).name
        code = INTERRUPTED_CODE if self._signum == signal.SIGINT else PREEMPTED_CODE
        runner.logger.warning(
            f'{name}: wrote {path} after step {step}; the run ends with exit code {code}. '
            f'Continue it with {self.continue_with}.'
        )
        self._restore()
        raise SystemExit(code)
