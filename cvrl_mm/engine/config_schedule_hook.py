"""The schedule of the config in resumed trainings."""

import warnings
from copy import deepcopy
from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

PROGRESS = ('last_step', '_global_step', '_last_value')  # in the state of a scheduler
RATES = ('lr', 'initial_lr')


@HOOKS.register_module()
class ConfigScheduleHook(Hook):
    """Let a resumed training follow the learning rate and the schedule of its config.

    mmengine restores both from the checkpoint. If the number of epochs or steps has been raised, a
    finished training would continue with its last learning rate, which is almost 0 after a cosine.
    With half of the GPUs, and hence twice the steps per epoch, a cosine would end after half of the
    epochs and rise again. An edited learning rate would have no effect.

    If the schedule of the checkpoint differs from that of the config, this hook sets the latter to
    the number of trained epochs or steps; :class:`SampleSeedHook` counts these in steps of the
    current loader. Otherwise this hook changes nothing. The learning rate must be all that the
    schedules change.
    """

    _states: list[dict] | None = None  # of the schedulers of the config, in a resumed training

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Keep the schedule of the config, before that of the checkpoint replaces it."""
        if not runner._resume or runner.param_schedulers is None:
            return
        self._states = [deepcopy(x.state_dict()) for x in runner.param_schedulers]
        groups = runner.optim_wrapper.param_groups
        self._rates = [{key: group[key] for key in RATES} for group in groups]

    def before_train(self, runner: Runner) -> None:
        """Replace the schedule of the checkpoint if it differs from that of the config."""
        if self._states is None:
            return
        schedulers = runner.param_schedulers
        states = zip(schedulers, self._states, strict=True)
        if all(_settings(x.state_dict()) == _settings(state) for x, state in states):
            return
        for scheduler, state in zip(schedulers, self._states, strict=True):
            scheduler.load_state_dict(state)
        for group, rates in zip(runner.optim_wrapper.param_groups, self._rates, strict=True):
            group.update(rates)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)  # of steps without the optimizer
            for scheduler in schedulers:
                for _ in range(runner.epoch if scheduler.by_epoch else runner.iter):
                    scheduler.step()
        runner.logger.info(
            'The learning rate follows the schedule of the config, not that of the checkpoint.'
        )


def _settings(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in PROGRESS}
