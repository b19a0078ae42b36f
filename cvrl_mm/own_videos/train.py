"""Pre-train on a user's own videos: inspection, settings, training and results."""

import gc
import json
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from os.path import abspath
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from mmaction.utils import register_all_modules
from mmengine import dist
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from rich.console import Console

from ..datasets.frame_store import free_bytes
from ..datasets.lists import check_sources, read_lines
from ..doctor import check_gpus
from ..encoder.encoder import Encoder, load_encoder
from ..encoder.files import SHIPPED
from ..io import locked, read_json, replace_text
from ..models import R3DSlow
from ..options import RANDOM, Options
from ..processes import cores_per_process, is_torchrun, usable_cores
from ..progress import notebook_line, progress
from ..runtime import print_warnings_only, read_config
from ..text import printable
from .config import lists_of, render
from .folder import COMMAND, INIT, LENGTH, claim, replace_lists, video_root, write_inputs
from .inspect import Inspection, inspect
from .plan import EPOCHS, Machine, Network, Plan, Setting, choose, choose_steps, remarks

ALONE_SECONDS = 7 * 24 * 3600  # rank 0 inspects and encodes all videos while the others wait
MIN_TIMED_STEPS = 8
UNTIMED_STEPS = 4  # first steps, during which the workers start
PLAIN_SECONDS = 30  # between two lines of progress if the output is not a terminal
MOST_WAITING = 0.5  # share of the time, above which the training advises to repack the videos
console = Console(stderr=True, highlight=False, soft_wrap=True)


class Task:
    """What a command trains; this one is pre-training."""

    options: type[Options] = Options
    usage = 'encoder = cvrl_mm.load_encoder({!r})'
    epochs = EPOCHS
    min_steps: int | None = None  # by the plan
    render: Callable[[Inspection, Plan], str] = staticmethod(render)

    def videos(self, sources: Sequence[str], options: Any) -> Sequence[str]:
        """Return the videos, folders and lists to open."""
        return sources

    def choose(
        self, found: Inspection, options: Any, machine: Machine, folder: Path, start: Network | None
    ) -> Plan:
        """Choose the settings, and write the lists of the training."""
        plan = choose(found, options, machine, start)
        replace_lists(folder, lists_of(found, plan))
        return plan

    def write_results(self, folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
        """Write the results, ``report.md`` last."""
        from .report import write_results  # with scikit-learn and matplotlib

        write_results(folder, cfg, checkpoint, console)


def run(
    sources: Sequence[str | Path] | str | Path,
    out: str | Path,
    task: Task | None = None,
    config_only: bool = False,
    **options: Any,
) -> Path:
    """Implement :func:`cvrl_mm.pretrain`. All ranks must call this function.

    Args:
        sources: Videos, folders and lists; empty to continue.
        out: Output folder.
        task: What to train; pre-training by default.
        config_only: Write the config, and do not train.
        options: Fields of the task's options.
    """
    task = task or Task()
    sources = [sources] if isinstance(sources, str | Path) else list(sources)
    init = options.get('init')
    if init not in (None, RANDOM, *SHIPPED) and '://' not in str(init):
        options['init'] = abspath(init)  # the command may be continued from another folder
    folder, chosen = Path(out).resolve(), task.options(**options)
    register_all_modules()
    print_warnings_only()
    if not torch.cuda.is_available() and 'OMP_NUM_THREADS' not in os.environ:
        torch.set_num_threads(max(1, usable_cores() // 2))  # the other half is for the loader
    with ExitStack() as locks:
        found, start = None, None
        # Before init_dist: processes that are forked beside the threads of a process group can hang
        if not is_torchrun() or os.environ['RANK'] == '0':
            check_sources(sources)  # before anything is written
            folder.mkdir(parents=True, exist_ok=True)
            locks.enter_context(locked(folder))
            given = {name for name, value in options.items() if value is not None}
            videos, chosen, has_config = claim(folder, sources, chosen, given)
            if not has_config:
                found, start = _inspect(folder, videos, chosen, task)
        if is_torchrun() and not dist.is_distributed():
            backend = 'nccl' if torch.cuda.is_available() else 'gloo'
            dist.init_dist('pytorch', backend=backend, timeout=ALONE_SECONDS)
        # The other ranks do not look at the files, which rank 0 may be replacing
        shared: list[Any] = [chosen, found is not None]
        dist.broadcast_object_list(shared)
        if shared[1]:
            _write_config(folder, found, start, shared[0], task)
        if not config_only:
            _lengthen(folder, shared[0])
            _finish(folder, task)
    return folder


def _inspect(
    folder: Path, videos: Sequence[str], options: Options, task: Task
) -> tuple[Inspection, Network | None]:
    """Open the encoder to start from, if there is one, and all videos."""
    start = None
    if options.init not in (None, RANDOM):  # fails early, before videos are opened
        start = copy_start(load_encoder(str(options.init)), folder)
    with progress('Opening videos', console) as on_progress:
        sources = task.videos(videos, options)
        found = inspect(sources, usable_cores(), on_progress, options.groups)
    found.write(folder / 'videos.tsv')
    _say(*found.describe())
    return found, start


def copy_start(encoder: Encoder, folder: Path) -> Network:
    """Copy the weights to start from to the path that the config uses, and describe the encoder."""
    if not isinstance(encoder.backbone, R3DSlow):  # MMAction2's own backbones ignore init_cfg
        raise ValueError(
            f'The encoder is a {type(encoder.backbone).__name__}; this command trains only an '
            'R3DSlow further. Train it by a config with load_from.'
        )
    encoder.save(folder / INIT)
    backbone = dict(encoder.meta['backbone'])
    channels = encoder.features(torch.zeros(1, 3, 8, 64, 64, dtype=torch.uint8)).shape[1]
    scale = dict(mean=list(encoder.clip_input.mean), std=list(encoder.clip_input.std))
    largest = 224 if backbone.get('depth', 50) >= 50 else 112
    return Network(backbone, channels, min(encoder.size, largest), scale)


def _write_config(
    folder: Path, found: Inspection | None, start: Network | None, options: Options, task: Task
) -> None:
    """Choose the settings and write the config; only the main process has ``found``."""
    ranks, trial, config = dist.get_world_size(), folder / '.trial_config.py', folder / 'config.py'
    if found is not None:
        room = free_bytes(folder) / 2
        _say(*(str(finding) for finding in check_gpus() if finding.status == 'problem'))
        machine = Machine(cores_per_process(), ranks, torch.cuda.is_available(), room)
        plan = task.choose(found, options, machine, folder, start)
        if plan['init'] in SHIPPED:
            copy_start(load_encoder(plan['init']), folder)
        write_inputs(folder, found.root, plan.network)
        plan.settings['steps'] = Setting(1000, 'not known yet')
        trial.write_text(task.render(found, plan), encoding='utf-8')
    _wait()
    seconds = math.nan
    if options.epochs is None and options.steps is None:
        _say('Measuring the time per step …')
        seconds = time_step(trial)
    if found is not None:
        per_epoch = plan.samples / (plan['batch_size'] * ranks)
        least = task.min_steps or plan.min_steps
        plan.settings['steps'] = choose_steps(options, per_epoch, seconds, task.epochs, least)
        replace_text(config, task.render(found, plan))
        trial.unlink()
        _say(*remarks(plan, least))
        for name, setting in plan.settings.items():
            if setting.value is not None or name == 'cache':
                _say(f'  {name.replace("_", " "):15}{setting.value!s:8} {setting.reason}')
        _say(f'Settings and their reasons: {config}')
    _wait()


def _lengthen(folder: Path, options: Options) -> None:
    """Write another length of a training into its config, if the command has one."""
    note, config = folder / COMMAND, folder / 'config.py'
    command = read_json(note)
    _wait()  # before the main process replaces it
    length = {name: getattr(options, name) for name in LENGTH}
    if not any(length.values()) or command | length == command:
        return
    cfg = read_config(config, 'train_cfg', 'train_dataloader', 'work_dir')
    seconds, former = math.nan, last_checkpoint(cfg)[0]
    if options.hours is not None:
        _say('Measuring the time per step …')
        seconds = time_step(config)
    loader = cfg.train_dataloader
    total = loader.batch_size * dist.get_world_size()
    per_epoch = len(read_lines(loader.dataset.ann_file)) / total
    steps = choose_steps(options, per_epoch, seconds, EPOCHS, 1)
    if steps.value < former:
        raise ValueError(f'{steps.value} steps are fewer than the {former} of the training so far.')
    if dist.is_main_process():
        text = config.read_text(encoding='utf-8')
        replace_text(config, re.sub(r'(?<=max_iters=)[^,)\n]+', str(steps.value), text))
        replace_text(note, json.dumps(command | length, indent=2))
        _say(
            f'{steps.value} steps ({steps.reason}), of which {former} are done. The learning rate '
            'goes on as in a training of this length: it rises again, and at first the loss, too.'
        )
    _wait()


def _finish(folder: Path, task: Task) -> None:
    """Train to the end, and write the results unless there is a report."""
    config = folder / 'config.py'
    cfg = read_config(config, 'model', 'train_cfg', 'train_dataloader', 'work_dir')
    steps, trained = cfg.train_cfg.max_iters, last_checkpoint(cfg)[0]
    report = folder / 'report.md'
    if trained >= steps:
        _say(f'The training is finished (step {trained}).')
    else:
        _say(f'{"Continuing" if trained else "Starting"} the training (step {trained} of {steps}).')
        video_root(folder)
        if dist.is_main_process():
            report.unlink(missing_ok=True)  # it is of fewer steps
        cfg = train(config)
    if dist.is_main_process():
        # More steps than in config.py if that has been edited
        cfg.train_cfg.max_iters, checkpoint = last_checkpoint(cfg)
        if report.is_file():
            _say(f'The report exists already; remove {report} to write it again.')
        else:
            task.write_results(folder, cfg, checkpoint, console)
        shutil.rmtree(folder / 'frames', ignore_errors=True)  # the store of decoded frames
        _say(
            f'Open {folder / "index.html"} in a browser. The numbers are in report.md beside it.',
            f'In Python: {task.usage.format(str(folder))}',
        )
    _wait()


def last_checkpoint(cfg: Config) -> tuple[int, Path]:
    """Return the steps and the path of the last checkpoint; 0 and a path in use if there is none.

    Args:
        cfg: Config of the training.
    """
    found = {0: Path(cfg.work_dir)}
    for path in Path(cfg.work_dir).glob('*.pth'):
        if match := re.fullmatch(r'(?:iter|preempted)_(\d+)', path.stem):
            found[int(match[1])] = path
    return max(found.items())


def train(config_file: Path) -> Config:
    """Train to the end, from the last checkpoint if there is one, and return the config."""
    cfg = _read(config_file)
    cfg.resume = last_checkpoint(cfg)[0] > 0
    runner = QuietRunner.from_cfg(cfg)
    runner.register_hook(ProgressHook())
    runner.train()
    return cfg


def time_step(config_file: Path) -> float:
    """Measure the seconds per step, including loading, in a short training that is discarded.

    Args:
        config_file: Config of the training.

    Returns:
        The mean over several steps.
    """
    # Its log stays open, with which some systems do not delete it
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cfg = _read(config_file)
        # Batches arrive in bursts of one per worker, as these start together: whole rounds are
        # timed, after the two batches per worker that are loaded in advance
        workers = max(1, cfg.train_dataloader.num_workers)
        timed = workers * max(2, math.ceil(MIN_TIMED_STEPS / workers))
        untimed = UNTIMED_STEPS + 2 * workers
        cfg.merge_from_dict({'train_cfg.max_iters': untimed + timed, 'work_dir': folder})
        cfg.custom_hooks = [h for h in cfg.custom_hooks if h.type != 'KNNMonitorHook']
        cfg.default_hooks.checkpoint = None  # without this, mmengine would add its default hook
        runner = QuietRunner.from_cfg(cfg)
        runner.train()
        seconds = float(np.mean(runner.message_hub.get_scalar('train/time').data[0][-timed:]))
        del runner
        gc.collect()  # ends the workers
    return seconds


def _read(config_file: Path) -> Config:
    cfg = Config.fromfile(config_file)
    cfg.launcher = 'pytorch' if is_torchrun() else 'none'
    # Unique, because one process builds several runners
    cfg.experiment_name = f'own_videos_{uuid4().hex}'
    return cfg


class QuietRunner(Runner):
    """A runner that prints only warnings; its log file contains all messages."""

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger and restrict its terminal output to warnings."""
        logger = super().build_logger(*args, **kwargs)
        logger.addFilter(_clean)
        print_warnings_only(logger)
        return logger


def _clean(record: logging.LogRecord) -> bool:
    """Escape names from outside, and drop mmengine's remarks on what mmengine itself calls."""
    record.msg = '\n'.join(map(printable, record.getMessage().split('\n')))
    record.args = ()
    return 'will be deprecated in future' not in record.msg


class ProgressHook(Hook):
    """Show steps, remaining time, loss, accuracy, speed and waiting time in one line.

    ``accuracy`` is the classifier's, or the contrastive accuracy: the share of first clips
    whose nearest clip in the batch is the second clip of the same video. A terminal shows as much
    as fits into its line, and a notebook a bar, too. Elsewhere, a line is printed every 30 seconds.
    """

    priority = 'LOWEST'  # after all hooks that log values

    def before_train(self, runner: Runner) -> None:
        """Start the clock."""
        self.shown, self.advised = time.monotonic(), False
        self.in_notebook = notebook_line()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Print a line if it is due."""
        done, total, on_terminal = runner.iter + 1, runner.max_iters, sys.stderr.isatty()
        pause = 1 if on_terminal or self.in_notebook else PLAIN_SECONDS
        is_due = time.monotonic() - self.shown > pause
        if not dist.is_main_process() or not (is_due or done == total):
            return
        self.shown = time.monotonic()
        scalars, window = runner.message_hub.log_scalars, runner.log_processor.window_size
        batch = runner.cfg.train_dataloader.batch_size * dist.get_world_size()
        measure, choices = 'accuracy', batch
        if 'train/top1_acc' in scalars:
            measure, choices = 'top1_acc', runner.cfg.model.cls_head.num_classes
        loss, accuracy, seconds, waiting = (
            float(scalars[f'train/{name}'].mean(window))
            for name in ('loss', measure, 'time', 'data_time')
        )
        left = timedelta(seconds=round(seconds * (total - done)))
        line = (
            f'Training {done}/{total}  {left} left  loss {loss:.2f}  accuracy {accuracy:.0%} '
            f'(chance {1 / choices:.0%})  {batch / seconds:.3g} videos/s  '
            f'waiting {waiting / seconds:.0%}'
        )
        if self.in_notebook:
            self.in_notebook(done / total, line)
        elif on_terminal:
            shown, end = line[: shutil.get_terminal_size().columns - 1], '\n' * (done == total)
            print(f'\r\x1b[K{shown}', end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
        data = runner.cfg.train_dataloader.dataset
        is_slow = waiting > MOST_WAITING * seconds and done > window and not data.get('cache')
        if is_slow and not self.advised:
            self.advised = True
            _say(
                '',  # ends the line of a terminal
                f'Loading the videos takes {waiting / seconds:.0%} of the time. Smaller copies '
                f'load faster: cvrl repack {data.data_prefix.video} SMALLER --short-side '
                f'{2 * runner.cfg.get("size", 128)}',
            )


def _say(*lines: str) -> None:
    if dist.is_main_process():
        for line in lines:
            console.print(printable(line), markup=False)


def _wait() -> None:
    if dist.is_distributed():
        dist.barrier()
