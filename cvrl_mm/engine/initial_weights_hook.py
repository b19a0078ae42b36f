"""Refuse to resume a training that began with other weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from .start_error import StartError


@HOOKS.register_module()
class InitialWeightsHook(Hook):
    """Refuse to resume if the config names other initial weights than the training began with.

    Without this hook, evaluating a second checkpoint in the folder of the first evaluation would
    continue that one, or test it again if it is finished. Checkpoints get the files of all
    ``init_cfg`` in ``meta['initial_weights']``. A file that no longer exists may have been moved,
    so another path is then accepted.
    """

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the files of the initial weights."""
        checkpoint['meta']['initial_weights'] = dict(_initial_weights(runner.cfg.get('model')))

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare the files of the initial weights with those of the config.

        Raises:
            StartError: The training began with other weights.
        """
        former = checkpoint.get('meta', {}).get('initial_weights')
        if not runner._resume or former is None:
            return
        for name, file in _initial_weights(runner.cfg.get('model')):
            before = former.get(name)
            if before is None or (before != file and _exists(before)):
                raise StartError(
                    f'The training to resume began with {before or "random weights"}, but '
                    f'{name}.checkpoint is {file}. Choose another --work-dir (WORK_DIR for '
                    'tools/train_and_test.sh), or leave out --resume to start anew.'
                )


def _initial_weights(config: object, name: str = 'model') -> Iterator[tuple[str, str]]:
    """Yield the key of each ``init_cfg`` with a checkpoint and the absolute path or URL."""
    if isinstance(config, Mapping):
        file = config.get('checkpoint')
        if name.endswith('.init_cfg') and file:
            yield name, str(file) if '://' in str(file) else str(Path(file).resolve())
        for key, value in config.items():
            yield from _initial_weights(value, f'{name}.{key}')


def _exists(file: str) -> bool:
    return '://' in file or Path(file).exists()
