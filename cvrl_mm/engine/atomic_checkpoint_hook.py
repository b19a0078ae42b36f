"""Checkpoints that are not damaged by a kill or a full disk."""

from pathlib import Path

from mmengine.dist import all_gather_object, broadcast_object_list, is_main_process
from mmengine.fileio import BaseStorageBackend
from mmengine.hooks import CheckpointHook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from .checkpoint_files import (
    PART,
    check_checkpoint,
    is_whole,
    newest_first,
    non_finite,
    trained_names,
)
from .folder_lock import FolderLock
from .launch import end_with_launcher, launch_id, was_restarted
from .start_error import StartError
from .unwrapped_model import unwrapped_model

PREEMPTED = 'preempted_{}.pth'  # an additional checkpoint; the number is that of steps
STARTED_ANEW = '.started_anew'  # contains the number of the last checkpoint before a new training


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """``CheckpointHook`` of mmengine with protection against kills, full disks and mistakes.

    - A checkpoint has a temporary name until it is complete. Outdated checkpoints are removed after
      the new one is written, not before.
    - A checkpoint with weights or momenta that are not finite is not written; the run stops.
    - ``--resume`` uses the newest checkpoint that is whole and finite. It is loaded as weights
      only (``torch.load(weights_only=True)``), unless the environment variable
      ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set. The log history of mmengine is also accepted;
      before torch 2.6 this requires :class:`WeightsOnlyCheckpointHook`.
    - A job that torchrun or Slurm has restarted resumes by itself, but only from checkpoints that
      the same launch has written. Each checkpoint stores its launch and a number that grows with
      each checkpoint in the folder; file times are not used.
    - A folder is used by one run at a time. Ranks end when torchrun is killed.
    - A warning is logged when a new training starts in a folder with checkpoints, and when
      ``--resume`` uses a checkpoint that is older than the last such start.

    Args:
        **kwargs: The arguments of ``CheckpointHook``. With ``backend_args`` other than the local
            default, files may appear before they are complete.
    """

    file_backend: BaseStorageBackend

    def __init__(self, **kwargs: object) -> None:
        kwargs.setdefault('backend_args', dict(backend='whole_files'))
        super().__init__(**kwargs)
        self._lock: FolderLock | None = None
        self._origin: dict = dict(launches=[launch_id()], number=0)  # of the last checkpoint

    def before_run(self, runner: Runner) -> None:
        """Lock the folder and choose the checkpoint to resume from.

        Raises:
            StartError: Another run uses the folder, or no checkpoint can be used.
        """
        # Also called for testing, possibly in the folder of a training run that is in progress
        if not isinstance(runner._train_loop, BaseLoop) or runner.iter > 0:
            return
        end_with_launcher()
        # torchrun counts restarts only on the node that failed
        launches, restarts = zip(*all_gather_object((launch_id(), was_restarted())), strict=True)
        self._origin = dict(launches=sorted(set(launches)), number=0)
        choice: list = [None]
        if is_main_process():
            try:
                choice = [self._choose(runner, any(restarts))]
            except (StartError, OSError) as error:  # for all ranks
                choice = [error]
        broadcast_object_list(choice)
        if isinstance(choice[0], Exception):
            raise choice[0]
        if choice[0] is not None:
            runner._resume, runner._load_from = choice[0]

    def _choose(self, runner: Runner, restarted: bool) -> tuple[bool, str | None] | None:
        """Return the values for ``_resume`` and ``_load_from`` of the runner, None to keep them."""
        self._lock = FolderLock(Path(runner.work_dir))
        if self.out_dir not in (None, runner.work_dir):
            return None
        folder = Path(runner.work_dir)
        for part in folder.glob('*' + PART):
            part.unlink()
        trained = trained_names(unwrapped_model(runner))
        patterns = [self.filename_tmpl, PREEMPTED]
        everything = newest_first(folder, patterns)
        self._origin['number'] = max([number for number, _ in everything], default=0)
        named = runner._load_from if runner._resume else None
        checkpoints = []
        if runner._resume and named is None:
            checkpoints = everything
        elif restarted:
            checkpoints = newest_first(folder, patterns, self._origin['launches'])
        elif everything and not runner._resume:
            runner.logger.warning(
                f'{folder} holds checkpoints of an earlier training, the last of them '
                f'{everything[0][1].name}. This training starts anew and replaces those of the '
                'same name. To continue the earlier one, end this one now and give --resume; to '
                'keep both, give another --work-dir.'
            )
            (folder / STARTED_ANEW).write_text(str(self._origin['number']))
        problems = []
        for number, path in checkpoints:
            try:
                check_checkpoint(path, trained)
            except StartError as error:
                problems.append(str(error))
                runner.logger.warning(f'{error} Trying the checkpoint before it.')
            else:
                unread = [p for n, p in everything if n == 0 and p != path]
                _warn_about(runner, path, number, unread if number else [])
                return True, str(path)
        if problems:
            raise StartError(
                f'None of the {len(problems)} checkpoints in {folder} can be used. The newest: '
                f'{problems[0]} Move them away to start anew, or resume from another one.'
            )
        if named is not None and '://' not in str(named):
            check_checkpoint(Path(named), trained)
        if runner._resume and named is None:
            runner.logger.warning(
                f'--resume: there is no checkpoint in {folder}; the training starts anew.'
            )
            return False, None  # mmengine would follow last_checkpoint to any other folder
        return None

    def before_train(self, runner: Runner) -> None:
        """Delay removals until the new checkpoint is written."""
        super().before_train(runner)
        self.file_backend = _LateRemoval(self.file_backend)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the launch and the number of the checkpoint.

        Raises:
            FloatingPointError: Weights or momenta are not finite.
        """
        broken = non_finite(checkpoint, trained_names(unwrapped_model(runner)))
        if broken:
            raise FloatingPointError(
                f'After step {checkpoint["meta"]["iter"]} values are not finite in {len(broken)} '
                f'tensors ({", ".join(broken[:3])}, ...). Nothing was saved; the training can be '
                'resumed from the checkpoint before it. Lower the learning rate, or add gradient '
                'clipping.'
            )
        self._origin['number'] += 1
        checkpoint['meta']['origin'] = dict(self._origin)

    def save_out_of_turn(self, runner: Runner, epoch: int, step: int, meta: dict) -> str:
        """Write an additional checkpoint, which the next regular one replaces.

        Args:
            runner: The runner.
            epoch: Number of complete epochs.
            step: Number of complete steps.
            meta: Further entries of the checkpoint's ``meta``.

        Returns:
            Path of the checkpoint.
        """
        name = PREEMPTED.format(step)
        runner.save_checkpoint(
            self.out_dir,
            name,
            self.file_client_args,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=dict(meta, epoch=epoch, iter=step),
            by_epoch=False,
            backend_args=self.backend_args,
            **self.args,
        )
        return self.file_backend.join_path(self.out_dir, name)

    def after_run(self, runner: Runner) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.release()

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        super()._save_checkpoint_with_step(runner, step, meta)
        self._remove_outdated()

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        super()._save_best_checkpoint(runner, metrics)
        self._remove_outdated()

    def _remove_outdated(self) -> None:
        best = [getattr(self, 'best_ckpt_path', None)]
        best += getattr(self, 'best_ckpt_path_dict', {}).values()
        self.file_backend.remove_held_back(keep=[self.last_ckpt, *best])
        if is_main_process():
            for path in Path(self.out_dir).glob(PREEMPTED.format('*')):
                path.unlink()


def _warn_about(runner: Runner, chosen: Path, number: int, unread: list[Path]) -> None:
    """Warn about damaged checkpoints and about a checkpoint of an earlier training."""
    for path in unread:
        if not is_whole(path):
            runner.logger.warning(f'{path} is damaged and is not used.')
    mark = chosen.with_name(STARTED_ANEW)
    text = mark.read_text() if mark.is_file() else ''
    if text.isdecimal() and number <= int(text):
        runner.logger.warning(
            f'{chosen} is of an earlier training: the last one in this folder started anew and '
            'ended before its first checkpoint. To start anew again, leave out --resume.'
        )


class _LateRemoval:
    """A storage backend that removes files only on ``remove_held_back``."""

    def __init__(self, backend: BaseStorageBackend) -> None:
        self._backend = backend
        self._outdated: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def remove(self, path: str) -> None:
        self._outdated.append(path)

    def remove_held_back(self, keep: list[str | None]) -> None:
        for path in self._outdated:
            if path not in keep and self._backend.isfile(path):
                self._backend.remove(path)
        self._outdated.clear()
