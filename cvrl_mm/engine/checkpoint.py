"""Checkpoints that survive kills, full disks and signals, and that resume exactly."""

import os
import re
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from os.path import isfile, join
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dist import all_reduce, barrier, broadcast_object_list, is_main_process
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook
from mmengine.logging import HistoryBuffer
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from mmengine.utils import apply_to

from ..io import PART, differing, file_sha256, locked, replacing
from ..models.weights import check_fit, load_checkpoint, refuse_safetensors

CHECKPOINT = re.compile(r'(epoch|iter|preempted)_(\d+)\.pth')
PREEMPTED = 'preempted_{}.pth'  # an additional checkpoint; {} is the number of steps
PREEMPTED_CODE = 75  # EX_TEMPFAIL of sysexits.h: start it again
INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells report Ctrl-C
# Parts of a config that determine what a training learns, and what does not matter in them
SCHEDULE = ('optim_wrapper', 'param_scheduler', 'train_cfg', 'auto_scale_lr')
RECIPE = ('model', 'train_dataloader', 'randomness', *SCHEDULE)
IRRELEVANT = (
    *('num_workers', 'persistent_workers', 'prefetch_factor', 'pin_memory'),
    *('channels_last', 'compiled', 'recompute', 'with_cp'),
)
WEIGHTS = ('init_cfg', 'pretrained')  # the settings that name initial weights


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

    - A checkpoint has a temporary name until it is complete, and loads as weights only.
    - ``--resume``, or a job that Slurm has put back into the queue, continues from the newest
      checkpoint in the work dir that can be read. In a work dir with checkpoints, every other start
      is refused, so that nothing is overwritten. A work dir is used by one run at a time.
    - If the config has changed since the training began, the log says in what, and the training
      continues with the config, including its schedule. A training that is finished, or began with
      other initial weights, is not continued: a test would measure it in place of the config.
    - On SIGTERM (preemption), SIGUSR1 (Slurm, ahead of a time limit), SIGHUP (a closed terminal) or
      SIGINT (Ctrl-C), the run writes ``preempted_STEP.pth`` after the current step, the same on all
      ranks, and ends with exit code 75, or 130 after Ctrl-C. This needs a seeded loop
      (:mod:`.loops`), which continues with the next batch when the run is resumed.
    - Weights to test or to resume must be exactly the network's. ``load_from`` may hold only
      some of them, but not none. ``meta['backbone']`` has the settings of the backbone, because
      weights do not show the padding of their training.

    Args:
        max_keep_ckpts: Number of checkpoints to keep; -1 for all. 1 counts as 2, because mmengine
            removes the oldest before it writes the next.
        **kwargs: The other arguments of ``CheckpointHook``, without ``out_dir``, ``backend_args``
            and ``filename_tmpl``: a resumed run looks for ``epoch_N.pth`` and ``iter_N.pth`` in the
            work dir.

    Raises:
        TypeError: One of these three is given.
    """

    def __init__(self, max_keep_ckpts: int = -1, **kwargs: Any) -> None:
        keep = 2 if max_keep_ckpts == 1 else max_keep_ckpts
        where: dict[str, Any] = dict(out_dir=None, filename_tmpl=None)
        where['backend_args'] = dict(backend='atomic')
        super().__init__(max_keep_ckpts=keep, **where, **kwargs)
        self._lock = ExitStack()
        self.recipe: dict[str, str] = {}

    # Start and resumption

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
        self.recipe = dict(_recipe({key: runner.cfg.get(key) for key in RECIPE}))
        choice = [runner._resume, runner._load_from]
        if is_main_process():
            folder = Path(runner.work_dir)
            self._lock.enter_context(locked(folder))
            for part in folder.glob(f'.*{PART}.pth'):
                part.unlink()
            choice = _choose(runner, _newest(runner))
        broadcast_object_list(choice)
        runner._resume, runner._load_from = choice

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check a checkpoint before it is used, and adapt it to the config.

        Raises:
            CheckpointMisfitError: The weights do not fit the network.
            ValueError: The checkpoint to resume has no optimizer, or belongs to another training.
        """
        training, name = is_training(runner), str(runner._load_from or 'The checkpoint')
        resumed = training and runner._resume
        check_fit(unwrapped_model(runner), checkpoint, name, partly=training and not resumed)
        if not resumed:
            return
        if 'optimizer' not in checkpoint:
            raise ValueError(
                f'{name} has no state of the optimizer, as best_*.pth has none. Resume from '
                'epoch_*.pth or iter_*.pth, or start a new training with load_from.'
            )
        meta, steps = checkpoint['meta'], len(runner.train_dataloader)
        meta.pop('config', None)  # mmengine would execute this text of mmcv 1
        info, scalars = (checkpoint['message_hub'][k] for k in ('runtime_info', 'log_scalars'))
        for key in [key for key in info if key.startswith('best_ckpt')]:
            del info[key]  # mmengine would remove this file, also from another work dir
        for key, contents in scalars.items():
            if isinstance(contents, list):
                scalars[key] = HistoryBuffer(*(x.cpu().numpy() for x in contents))
        former = meta.get('recipe', self.recipe)
        changed = sorted(differing(former, self.recipe))
        if changed:
            self._judge(runner, meta, changed)
        former_steps = meta.get('steps_per_epoch', steps)
        # With another number of GPUs, the epochs are kept and the steps are counted anew
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            meta['iter'] = round(meta['iter'] / former_steps * steps)
        if former_steps != steps or any(key.startswith(SCHEDULE) for key in changed):
            follow_schedule(runner, checkpoint)

    def _judge(self, runner: Runner, meta: dict, changed: list[str]) -> None:
        """Warn of a config that has changed, or refuse it if no step would use it.

        Raises:
            ValueError: The training is finished, or began with other weights.
        """
        text = f'The training in {runner.work_dir} had another {", ".join(changed)}'
        is_by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        done = (
            meta['epoch'] >= runner.max_epochs if is_by_epoch else meta['iter'] >= runner.max_iters
        )
        if done or any(part in WEIGHTS for key in changed for part in key.split('.')):
            raise ValueError(
                f'{text}{", and is finished" if done else ""}. Choose another --work-dir (WORK_DIR '
                'for tools/train_and_test.sh); load_from starts from its weights.'
            )
        runner.logger.warning(f'{text}; it continues with the present config.')

    # Saving

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        """Save at the interval; save and end if a rank has received a signal.

        Raises:
            SystemExit: A rank has received a signal, and the checkpoint is written.
        """
        super().after_train_iter(runner, batch_idx, *args, **kwargs)
        signals, step = getattr(runner.train_loop, 'signals', None), runner.iter + 1
        accumulates = step % getattr(runner.optim_wrapper, '_accumulative_counts', 1)
        if signals is None or accumulates or step >= runner.max_iters:
            return  # not a seeded loop, or gradients would be lost, or the end is reached
        # One more exchange per step, of a number. The host waits, but has just waited for the loss
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
        self._remove_preempted(keep=name)
        barrier()  # a launcher ends all ranks as soon as one has ended
        code = INTERRUPTED_CODE if interrupted else PREEMPTED_CODE
        runner.logger.warning(
            f'{signal.Signals(int(number)).name}: wrote {Path(self.out_dir) / name}; the run ends '
            f'with exit code {code}. Resume it to continue with the next step.'
        )
        raise SystemExit(code)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Describe the training, and store what does not load with ``weights_only`` as tensors."""
        meta = checkpoint['meta']
        if backbone := runner.cfg.get('model', {}).get('backbone'):
            meta['backbone'] = backbone.to_dict()
        meta |= dict(steps_per_epoch=len(runner.train_dataloader), recipe=self.recipe)
        if isinstance(states := checkpoint.get('param_schedulers'), list):  # of one optimizer
            checkpoint['param_schedulers'] = [
                {k: v for k, v in state.items() if not callable(v)} for state in states
            ]
        for part in {'message_hub', 'meta', 'param_schedulers'} & checkpoint.keys():
            checkpoint[part] = apply_to(checkpoint[part], _is_foreign, _to_plain)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        super()._save_checkpoint_with_step(runner, step, meta)
        self._remove_preempted()  # which are older

    def _remove_preempted(self, keep: str = '') -> None:
        if is_main_process():
            for path in Path(self.out_dir).glob(PREEMPTED.format('*')):
                if path.name != keep:
                    path.unlink()

    def after_run(self, runner: Runner) -> None:
        """Release the work dir."""
        self._lock.close()


def is_training(runner: Runner) -> bool:
    """Return whether a runner trains, and does not only test."""
    return isinstance(runner._train_loop, BaseLoop)  # it is built by ``Runner.train``


def unwrapped_model(runner: Runner) -> Any:
    """Return the model of a runner without the wrapper for distributed training."""
    return runner.model.module if is_model_wrapper(runner.model) else runner.model


def _newest(runner: Runner) -> Path | None:
    """Return the newest checkpoint in the work dir that can be read.

    Raises:
        ValueError: There are some, and none can be read.
    """
    matches = [CHECKPOINT.fullmatch(path.name) for path in Path(runner.work_dir).iterdir()]
    # A regular checkpoint removes the ones of a preemption, which are therefore newer
    found = sorted(((m[1] == 'preempted', int(m[2]), m[0]) for m in matches if m), reverse=True)
    problems = []
    for *_, name in found:
        try:
            load_checkpoint(path := Path(runner.work_dir, name), 'meta')
            return path
        except (OSError, ValueError) as error:
            problems.append(str(error))
            runner.logger.warning(f'{error} Trying the checkpoint before it.')
    if problems:
        raise ValueError(
            f'None of the checkpoints in {runner.work_dir} can be read. Move them away to start '
            f'anew. The newest: {problems[0]}'
        )
    return None


def _choose(runner: Runner, newest: Path | None) -> list:
    """Decide whether to resume, and from which file to load.

    Raises:
        ValueError: The work dir has checkpoints, and the run asks for another start.
    """
    resume, named = runner._resume, runner._load_from
    if newest is None:
        if not resume or named is not None:
            return [resume, named]
        runner.logger.warning(f'{runner.work_dir} has no checkpoint to resume; starting anew.')
        # MMAction2's --resume has replaced load_from of the config
        config = Config.fromfile(runner.cfg.filename) if runner.cfg.filename else {}
        return [False, config.get('load_from')]
    is_meant = named is None or Path(named).resolve() == newest.resolve()
    if (resume and is_meant) or os.environ.get('SLURM_RESTART_COUNT', '0') not in ('', '0'):
        return [True, str(newest)]
    raise ValueError(
        f'{runner.work_dir} holds a training, whose newest checkpoint is {newest.name}. Continue '
        'it by --resume without a file, or choose another --work-dir.'
    )


def _recipe(config: Any, name: str = '', root: str = '') -> Iterator[tuple[str, str]]:
    """Yield what determines a training: texts of values by dotted name, files by their content."""
    if isinstance(config, Mapping):
        root = config.get('data_root') or root
        for key, value in config.items():
            if key not in IRRELEVANT:
                yield from _recipe(value, f'{name}.{key}' if name else key, root)
    elif isinstance(config, list | tuple):
        for i, value in enumerate(config):
            yield from _recipe(value, f'{name}.{i}', root)
    elif config is not None:
        file = join(root, config) if isinstance(config, str) else ''
        yield name, file_sha256(file) if isfile(file) else str(config)


def follow_schedule(runner: Runner, checkpoint: dict) -> None:
    """Let the schedules and the optimizer's settings in the config replace the checkpoint's.

    mmengine restores all from the checkpoint: with more epochs, a finished training would continue
    with its last learning rate, which is almost 0 after a cosine.

    Args:
        runner: A runner that has not trained yet.
        checkpoint: Its contents to be loaded, changed in place.
    """
    schedulers: Any = runner.param_schedulers or []
    counts = {False: checkpoint['meta']['iter'], True: checkpoint['meta']['epoch']}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # of steps without the optimizer
        for by_epoch, count in counts.items():
            for scheduler in [s for s in schedulers if s.by_epoch == by_epoch] * count:
                scheduler.step()
    checkpoint['param_schedulers'] = [s.state_dict() for s in schedulers]
    wrapper: Any = runner.optim_wrapper
    saved = checkpoint['optimizer']
    groups = [*saved['param_groups'], saved.get('base_param_settings') or {}]
    wanted = [*wrapper.optimizer.param_groups, wrapper.base_param_settings or {}]
    for group, settings in zip(groups, wanted, strict=True):
        for key, value in settings.items():
            if key in wrapper.optimizer.defaults or key.startswith('initial_'):
                group[key] = value
    runner.logger.info('The learning rate follows the config, not the checkpoint.')


def _is_foreign(x: object) -> bool:
    """Return whether weights-only loading rejects a value."""
    return isinstance(x, (np.generic, np.ndarray, HistoryBuffer))


def _to_plain(x: Any) -> Any:
    if isinstance(x, HistoryBuffer):
        return [torch.from_numpy(history.copy()) for history in x.data]
    return x.tolist()
