"""Checkpoints that survive a kill and a full disk."""

import os
from pathlib import Path

from mmengine.dist import all_gather_object, broadcast_object_list, is_main_process
from mmengine.fileio import BaseStorageBackend
from mmengine.hooks import CheckpointHook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from .checkpoint_files import PART, is_whole, newest_first

FRESH_START = '.fresh_start'  # written when a run begins: older checkpoints are another run's


@HOOKS.register_module()
class AtomicCheckpointHook(CheckpointHook):
    """mmengine's ``CheckpointHook``, with nothing lost between two checkpoints.

    - A checkpoint appears whole or not at all, and the ones that it outdates are removed after
      it, not before.
    - ``--resume`` goes on from the newest checkpoint that can be read.
    - A job that torchrun has started again goes on by itself from the newest checkpoint
      that it has written.

    Args:
        **kwargs: What ``CheckpointHook`` takes. Other ``backend_args`` than the local default
            are the caller's, who then answers for whole files.
    """

    file_backend: BaseStorageBackend

    def __init__(self, **kwargs: object) -> None:
        kwargs.setdefault('backend_args', dict(backend='whole_files'))
        super().__init__(**kwargs)

    def before_run(self, runner: Runner) -> None:
        """Choose the checkpoint to go on from.

        Raises:
            RuntimeError: there are checkpoints, but none can be read.
        """
        # Tests come here, too, also those of a training that goes on elsewhere
        if not isinstance(runner._train_loop, BaseLoop) or runner.iter > 0:
            return
        # torchrun counts on the node that has failed alone, the others join it anew
        restarts = all_gather_object(int(os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)))
        restarted = max(restarts) > 0
        choice = [self._choose(runner, restarted) if is_main_process() else None]
        broadcast_object_list(choice)
        if isinstance(choice[0], RuntimeError):
            raise choice[0]
        if choice[0] is not None:
            runner._resume, runner._load_from = True, choice[0]

    def _choose(self, runner: Runner, restarted: bool) -> str | RuntimeError | None:
        """Return the checkpoint to resume from, None to leave it to the runner."""
        if self.out_dir not in (None, runner.work_dir):
            return None
        folder, mark = Path(runner.work_dir), Path(runner.work_dir) / FRESH_START
        for part in folder.glob('*' + PART):
            part.unlink()
        asked = runner._resume and runner._load_from is None
        if not (asked or restarted):
            mark.touch()
            return None
        since_ns = 0 if asked or not mark.exists() else mark.stat().st_mtime_ns
        checkpoints = newest_first(folder, self.filename_tmpl, since_ns)
        for path in checkpoints:
            if is_whole(path):
                return str(path)
            runner.logger.warning(f'{path} is damaged; trying the checkpoint before it.')
        if not checkpoints:
            return None
        return RuntimeError(
            f'None of the {len(checkpoints)} checkpoints in {folder} can be read; move them away '
            'to start anew, or name a good one with --resume.'
        )

    def before_train(self, runner: Runner) -> None:
        """Hold removals back until their successor is written."""
        super().before_train(runner)
        self.file_backend = _LateRemoval(self.file_backend)

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


class _LateRemoval:
    """A storage backend that removes files when it is told to."""

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
