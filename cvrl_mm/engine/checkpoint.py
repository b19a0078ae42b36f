"""Checkpoints that survive kills, full disks and signals, and that resume exactly."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dist import (
    all_reduce,
    barrier,
    broadcast_object_list,
    is_main_process,
)
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook, EMAHook
from mmengine.logging import HistoryBuffer
from mmengine.optim import OptimWrapperDict
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from mmengine.utils import apply_to

from ..io import PART, locked, replacing
from ..models.weights import check_fit, load_checkpoint, refuse_foreign_code, refuse_safetensors
from .resumption import faults, follow_config, settings_of, without_functions
from .runtime import unwrapped_model

REGULAR = 'epoch_{}.pth', 'iter_{}.pth'  # which of them depends on by_epoch
PREEMPTED = 'preempted_{}.pth'  # an additional checkpoint; the number is that of steps
PREEMPTED_CODE = 75  # EX_TEMPFAIL of sysexits.h: start it again
INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells report Ctrl-C


@register_backend('atomic')
class AtomicBackend(LocalBackend):
    """The local file system, where a file appears whole or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file under another name and rename it once it is on the disk."""
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(obj)


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """``CheckpointHook`` of mmengine with protection against kills, signals and mistakes.

    - A checkpoint has a temporary name until it is complete. Outdated ones are removed after it.
    - All files load with ``torch.load(weights_only=True)``, and nothing else is loaded unless the
      environment variable ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set.
    - ``--resume`` uses the newest checkpoint that can be read, and so does a job that Slurm has
      put back into the queue. A validation that was interrupted is repeated. In a work dir with
      checkpoints, every other start is refused, so that nothing is overwritten.
    - On SIGTERM (preemption), SIGUSR1 (Slurm, ahead of a time limit), SIGHUP (a closed terminal) or
      SIGINT (Ctrl-C), the run writes ``preempted_STEP.pth`` after the current step, the same on all
      ranks, and ends with exit code 75, or 130 after Ctrl-C. This needs a seeded loop
      (:mod:`.loops`), which continues with the next batch when the run is resumed.
    - Weights to test or to resume must be exactly those of the network. ``load_from`` may hold only
      some of them, but not none. ``meta['backbone']`` has the settings of the backbone, because
      weights do not tell with which padding they were trained.
    - If the schedule of the config differs from that of a resumed checkpoint, for example with
      other epochs or another number of GPUs, that of the config is followed.
    - A work dir is used by one run at a time.
    - ``max_keep_ckpts`` counts the checkpoints that were written under it; others are kept.

    Args:
        **kwargs: The arguments of ``CheckpointHook``, besides ``out_dir`` and ``backend_args``:
            checkpoints are in the work dir, where a resumed run looks for them.

    Raises:
        TypeError: One of these two is given.
        ValueError: ``filename_tmpl`` has no ``{}``, or a format in it.
    """

    max_keep_ckpts: int

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, out_dir=None, backend_args=dict(backend='atomic'))
        if '{}' not in self.filename_tmpl:
            raise ValueError(f'filename_tmpl must contain {{}}, got {self.filename_tmpl!r}.')
        # Outdated checkpoints are removed here; mmengine does so before it writes the next one
        self.num_kept, self.max_keep_ckpts = self.max_keep_ckpts, -1
        self._lock = ExitStack()
        self.settings: list[dict] = []  # of the optimizer at the start of this run
        self.validated = -1  # the number of steps before the last validation that has ended
        self.saved = (-1, -1)  # number in the name of the last checkpoint, and its ``validated``
        refuse_foreign_code()

    def before_run(self, runner: Runner) -> None:
        """Lock the work dir and choose the checkpoint to resume from.

        Raises:
            BlockingIOError: Another run uses the work dir.
            ValueError: The work dir has checkpoints from which the run would not continue, or
                none of which can be read; or the weights to load are a safetensors file.
        """
        refuse_safetensors(str(runner._load_from))
        if not is_training(runner) or runner.iter > 0:
            return
        choice = [runner._resume, runner._load_from]
        if is_main_process():
            folder = Path(runner.work_dir)
            self._lock.enter_context(locked(folder))
            for part in folder.glob(f'.*{PART}.pth'):
                part.unlink()
            names = sorted({self.filename_tmpl, *REGULAR})
            best = find_checkpoints(folder, [f'best_*_{name}' for name in names])
            newest = self._newest(runner, names)
            requeued = os.environ.get('SLURM_RESTART_COUNT', '0') not in ('', '0')
            asked = runner._resume and runner._load_from is None
            # Others than the best may not have been reached; then a restart begins anew
            held = newest or next((path for _, path in best if not (asked or requeued)), None)
            named = Path(str(runner._load_from)).resolve() if runner._resume else None
            if newest and (asked or requeued or named == newest.resolve()):
                choice = [True, str(newest)]
            elif held:
                raise ValueError(
                    f'{folder} holds a training, whose newest checkpoint is {held.name}. Continue '
                    'it by --resume without a file, or choose another --work-dir.'
                )
            elif asked:  # mmengine would follow last_checkpoint anywhere
                runner.logger.warning(f'{folder} has no checkpoint to resume; starting anew.')
                choice = [False, initial_weights(runner) or None]
        broadcast_object_list(choice)
        runner._resume, runner._load_from = choice
        if runner._resume:  # all weights come from the checkpoint; the file of init_cfg may be lost
            runner._init_model_weights = lambda: None  # type: ignore[method-assign]

    def _newest(self, runner: Runner, names: list[str]) -> Path | None:
        """Return the newest checkpoint in the work dir that can be read."""
        folder = Path(runner.work_dir)
        # A regular checkpoint replaces those of a preemption, which are therefore newer
        preempted = sorted(find_checkpoints(folder, [PREEMPTED]), reverse=True)
        regular = [sorted(find_checkpoints(folder, [name]), reverse=True) for name in names]
        regular.sort(key=lambda found: found[0][1].stat().st_mtime if found else 0, reverse=True)
        problems = []
        for _, path in chain(preempted, *regular):
            try:
                check_whole(path)
                return path
            except (OSError, ValueError) as error:
                problems.append(str(error))
                runner.logger.warning(f'{error} Trying the checkpoint before it.')
        if problems:
            raise ValueError(
                f'None of the checkpoints in {folder} can be read. Move them away to start anew. '
                f'The newest: {problems[0]}'
            )
        return None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check a checkpoint before it is used, and adapt it to the config.

        Raises:
            CheckpointMisfitError: The weights do not fit the network.
            ValueError: The checkpoint to resume is damaged or belongs to another training.
        """
        training, name = is_training(runner), str(runner._load_from or 'The checkpoint')
        resumed = training and runner._resume
        check_fit(unwrapped_model(runner), checkpoint, name, partly=training and not resumed)
        if not resumed or isinstance(runner.optim_wrapper, OptimWrapperDict):
            return
        try:
            fault = next(faults(runner, checkpoint), None)
            if fault is None:
                self._adapt(runner, checkpoint)
        except Exception as error:  # fields of another type can cause any
            fault = repr(error)
        if fault is not None:
            raise ValueError(f'{name} is damaged or belongs to another training: {fault}.')

    def _adapt(self, runner: Runner, checkpoint: dict) -> None:
        """Restore the log, which is stored as tensors, and follow the steps of the config."""
        scalars = checkpoint['message_hub'].get('log_scalars', {})
        for key, contents in scalars.items():
            if isinstance(contents, list):
                scalars[key] = HistoryBuffer(*(x.cpu().numpy() for x in contents))
        # With another number of GPUs, the epochs are kept and the steps are counted anew
        meta, steps = checkpoint['meta'], len(runner.train_dataloader)
        is_validated = meta.get('validated') == meta['iter']
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            meta['iter'] = round(meta['iter'] / (meta.get('steps_per_epoch') or steps) * steps)
        self.settings = settings_of(runner)
        self.validated = meta['iter'] if is_validated else -1
        follow_config(runner, checkpoint)

    def before_train(self, runner: Runner) -> None:
        """Repeat a validation that was interrupted."""
        super().before_train(runner)
        if not runner._resume:
            self.settings = settings_of(runner)
        elif self.validated != runner.iter and _is_followed_by_validation(runner):
            runner.val_loop.run()  # type: ignore[union-attr]

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        """Save at the interval; save and end if a rank has received a signal.

        Raises:
            SystemExit: A rank has received a signal, and the checkpoint is written.
        """
        super().after_train_iter(runner, batch_idx, *args, **kwargs)
        if runner.iter + 1 < runner.max_iters:
            self._end_after_signal(runner, runner.iter + 1)

    def after_val_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Save and end within a validation if a rank has received a signal."""
        # EMAHook exchanges the weights during a validation, which must end first
        may_end = not any(isinstance(hook, EMAHook) for hook in runner.hooks)
        may_end &= getattr(runner.val_dataloader.sampler, 'round_up', True)  # as many on each rank
        if may_end and is_training(runner) and 0 < runner.iter < runner.max_iters:
            self._end_after_signal(runner, runner.iter)

    def after_val_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        """Save the checkpoint with the best score, and that of this step as validated."""
        before, self.validated = self.validated, runner.iter
        super().after_val_epoch(runner, metrics)  # if the score is the best, saves both
        step = runner.epoch if self.by_epoch else runner.iter
        if self.saved == (step, before):
            meta = dict(epoch=runner.epoch, iter=runner.iter)
            self._save_checkpoint_with_step(runner, step, meta)

    def _end_after_signal(self, runner: Runner, step: int) -> None:
        signals = getattr(runner.train_loop, 'signals', None)
        accumulates = step % getattr(runner.optim_wrapper, '_accumulative_counts', 1)
        if signals is None or accumulates:  # not a seeded loop, or gradients would be lost
            return
        number = torch.tensor(signals[0] if signals else 0)
        all_reduce(number, 'max')
        if number == 0:
            return
        name, interrupted = PREEMPTED.format(step), int(number) == signal.SIGINT
        runner.save_checkpoint(
            self.out_dir,
            name,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=dict(epoch=runner.epoch, iter=step),
            by_epoch=False,
            backend_args=self.backend_args,
        )
        if is_main_process():
            for _, path in find_checkpoints(Path(self.out_dir), [PREEMPTED]):
                if path.name != name:  # with other ranks, its number can be higher
                    path.unlink()
        barrier()  # a launcher ends all ranks as soon as one has ended
        code = INTERRUPTED_CODE if interrupted else PREEMPTED_CODE
        runner.logger.warning(
            f'{signal.Signals(int(number)).name}: wrote {Path(self.out_dir) / name}; the run ends '
            f'with exit code {code}. Resume it to continue with the next step.'
        )
        raise SystemExit(code)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Describe the backbone, and store what does not load with ``weights_only`` as tensors."""
        model, meta = runner.cfg.get('model'), checkpoint['meta']
        backbone = model.get('backbone') if isinstance(model, dict) else None
        if isinstance(backbone, ConfigDict) and 'type' in backbone:
            meta['backbone'] = backbone.to_dict()
        meta |= dict(
            steps_per_epoch=len(runner.train_dataloader),
            settings=self.settings,
            validated=self.validated,
        )
        if isinstance(states := checkpoint.get('param_schedulers'), list):  # of one optimizer
            checkpoint['param_schedulers'] = without_functions(states)
        for part in {'message_hub', 'meta', 'param_schedulers'} & checkpoint.keys():
            checkpoint[part] = apply_to(checkpoint[part], _is_foreign, _to_plain)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        hub, written = runner.message_hub, []
        if self.num_kept > 0:  # under mmengine's name, for a resumption with either hook
            written = [x for x in hub.runtime_info.get('keep_ckpt_ids', ()) if x != step] + [step]
            hub.update_info('keep_ckpt_ids', written[-self.num_kept :])
        super()._save_checkpoint_with_step(runner, step, meta)
        self.saved = step, self.validated
        if is_main_process():
            folder = Path(self.out_dir)
            regular = find_checkpoints(folder, [self.filename_tmpl])
            outdated = [path for _, path in find_checkpoints(folder, [PREEMPTED])]
            outdated += [path for x, path in regular if x in written[: -self.num_kept]]
            for path in outdated:
                path.unlink()

    def after_run(self, runner: Runner) -> None:
        """Release the work dir, in which a later validation of other weights changes nothing."""
        self._lock.close()
        self.saved = (-1, -1)


def initial_weights(runner: Runner) -> str | None:
    """Return ``load_from`` of the config file, which MMAction2's ``--resume auto`` sets to None.

    If the config itself resumes, this is the checkpoint to resume; then '' is returned.
    """
    if not runner._resume:
        return runner._load_from
    config = Config.fromfile(runner.cfg.filename) if runner.cfg.filename else Config()
    return '' if config.get('resume') else config.get('load_from')


def is_training(runner: Runner) -> bool:
    """Return whether a runner trains, and does not only test."""
    return isinstance(runner._train_loop, BaseLoop)  # it is built by ``Runner.train``


def _is_followed_by_validation(runner: Runner) -> bool:
    """Return whether a validation comes before the next step, after the one that is resumed."""
    loop: Any = runner.train_loop
    if runner.val_loop is None or not hasattr(loop, 'val_interval'):
        return False
    done, end = runner.iter, runner.max_iters
    if isinstance(loop, EpochBasedTrainLoop):
        done, rest = divmod(done, len(runner.train_dataloader))
        if rest or done != runner.epoch:
            return False
        end = runner.max_epochs
    loop._decide_current_val_interval()
    return done >= loop.val_begin and (done % loop.val_interval == 0 or done == end)


def find_checkpoints(folder: Path, patterns: list[str]) -> Iterator[tuple[int, Path]]:
    """Find checkpoints by their names, without reading them.

    Args:
        folder: Where they are.
        patterns: Their names, '{}' in place of the step or epoch, '*' for any characters.

    Yields:
        The step or epoch of each, and its path.
    """
    escaped = [re.escape(p).replace(r'\{\}', r'(\d+)').replace(r'\*', '.+') for p in patterns]
    for path in folder.glob('*'):
        match = next(filter(None, (re.fullmatch(regex, path.name) for regex in escaped)), None)
        if match is not None:
            yield int(match[1]), path


def check_whole(path: Path) -> None:
    """Check that a checkpoint can be read.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is damaged, holds more than weights, or its weights are not finite.
    """
    try:
        with ZipFile(path) as file:
            damaged = file.testzip()
    except OSError:
        raise
    except Exception as error:  # zipfile raises many types of errors for damaged files
        damaged = repr(error)
    if damaged:
        raise ValueError(f'{path} is damaged ({damaged}).')
    for name, x in load_checkpoint(path).get('state_dict', {}).items():
        if x.is_floating_point() and not x.isfinite().all():
            raise ValueError(f'{path} has weights that are not finite ({name}).')


def _is_foreign(x: object) -> bool:
    """Return whether weights-only loading rejects a value."""
    return isinstance(x, (np.generic, np.ndarray, HistoryBuffer))


def _to_plain(x: Any) -> Any:
    if isinstance(x, HistoryBuffer):
        return [torch.from_numpy(history.copy()) for history in x.data]
    return x.tolist()
