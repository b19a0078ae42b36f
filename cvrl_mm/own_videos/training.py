"""Run the training of an own-videos config in this process."""

import gc
import logging
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.dist import broadcast_object_list
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..engine.atomic_checkpoint_hook import PREEMPTED
from ..engine.checkpoint_files import find_checkpoints
from ..engine.terminal_log import print_warnings_only, shorten
from .progress_hook import ProgressHook

REGULAR = 'iter_{}.pth'  # name of a checkpoint; the number is that of steps
MIN_TIMED_STEPS = 8
UNTIMED_STEPS = 4  # first steps, during which the workers start


class QuietRunner(Runner):
    """A runner that prints only warnings; its log file contains all messages."""

    def build_logger(
        self, log_level: int | str = 'INFO', log_file: str | None = None, **kwargs: object
    ) -> MMLogger:
        """Build the logger and restrict its terminal output to warnings."""
        return shorten(super().build_logger(log_level, log_file, **kwargs), logging.WARNING)


class StepTimer(Hook):
    """Record the end time of each step."""

    priority = 'LOWEST'

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Record the time."""
        self.ends.append(time.perf_counter())


def prepare_process(cores: int) -> None:
    """Register all modules, print only warnings; on a CPU, half of the cores are for the loader."""
    register_all_modules()
    print_warnings_only()
    if not torch.cuda.is_available() and 'OMP_NUM_THREADS' not in os.environ:
        torch.set_num_threads(max(1, cores // 2))


def time_step(config_file: Path) -> float:
    """Measure the seconds per step, including loading, in a short training that is discarded.

    Args:
        config_file: Config of the training.

    Returns:
        The mean over several steps, the same on all ranks.
    """
    with tempfile.TemporaryDirectory() as folder:
        cfg = _read(config_file)
        untimed, timed = steps_to_time(cfg.train_dataloader.num_workers)
        cfg.merge_from_dict({'train_cfg.max_iters': untimed + timed, 'work_dir': folder})
        cfg.custom_hooks = [h for h in cfg.custom_hooks if h.type != 'RepresentationHook']
        cfg.default_hooks.checkpoint = None  # without this, mmengine would add its default hook
        cfg.default_hooks.pop('plain_checkpoint', None)
        timer = StepTimer()
        runner = QuietRunner.from_cfg(cfg)
        runner.register_hook(timer)
        runner.train()
        del runner
        gc.collect()  # ends the workers
        for handler in MMLogger.get_current_instance().handlers:
            handler.close()  # the log file is deleted with the folder
    seconds = [mean_step(timer.ends, untimed)]
    broadcast_object_list(seconds)
    return seconds[0]


def steps_to_time(workers: int) -> tuple[int, int]:
    """Choose the steps of a time measurement.

    The workers of a loader start together, so that batches arrive in bursts of one per worker.
    The timed steps are therefore whole rounds of the workers, after the two batches per worker
    that are loaded in advance.

    Args:
        workers: Number of loading processes; 0 if the training process loads.

    Returns:
        Number of untimed first steps and of timed steps.
    """
    workers = max(1, workers)
    rounds = math.ceil(max(MIN_TIMED_STEPS, 2 * workers) / workers)
    return UNTIMED_STEPS + 2 * workers, rounds * workers


def mean_step(ends: Sequence[float], untimed: int) -> float:
    """Average the duration of steps.

    Args:
        ends: End time of each step in seconds.
        untimed: Number of first steps that do not count, at least 1.

    Returns:
        Seconds per step.
    """
    return (ends[-1] - ends[untimed - 1]) / (len(ends) - untimed)


def train(config_file: Path) -> None:
    """Train to the end, from the last checkpoint if there is one.

    Args:
        config_file: Config of the training.
    """
    cfg = _read(config_file)
    cfg.resume = has_begun(cfg)
    runner = QuietRunner.from_cfg(cfg)
    bar = ProgressHook()
    runner.register_hook(bar)
    try:
        runner.train()
    finally:
        bar.close()


def final_checkpoint(cfg: Config) -> Path:
    """Return the path of the checkpoint of the last step, whether it exists or not.

    If the config asks for exactly the steps after which a training was interrupted, it is the
    checkpoint of the interruption.
    """
    steps = cfg.train_cfg.max_iters
    interrupted = Path(cfg.work_dir) / PREEMPTED.format(steps)
    return interrupted if interrupted.is_file() else Path(cfg.work_dir) / REGULAR.format(steps)


def has_begun(cfg: Config) -> bool:
    """Return whether there is a checkpoint to continue from."""
    return trained_steps(cfg) > 0


def trained_steps(cfg: Config) -> int:
    """Return the number of steps of the last checkpoint; 0 if there is none."""
    found = find_checkpoints(Path(cfg.work_dir), [REGULAR, PREEMPTED])
    return max((steps for steps, _ in found), default=0)


def _read(config_file: Path) -> Config:
    cfg = Config.fromfile(config_file)
    cfg.launcher = 'pytorch' if 'RANK' in os.environ else 'none'
    cfg.experiment_name = (
        f'own_videos_{uuid4().hex}'  # unique, because one process builds several runners
    )
    return cfg
