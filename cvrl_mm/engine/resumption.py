"""How a checkpoint to resume is checked, and made to follow the config."""

import warnings
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import torch
from mmengine.optim import OptimWrapperDict
from mmengine.runner import Runner

from .runtime import unwrapped_model

MOMENTS = ('momentum_buffer', 'exp_avg', 'exp_avg_sq')  # in the state of each parameter
PROGRESS = (  # in the state of a scheduler
    *('last_step', '_global_step', '_last_value'),
    *('best', 'num_bad_epochs', 'cooldown_counter'),  # of ReduceOnPlateauLR
)


def follow_config(runner: Runner, checkpoint: dict) -> None:
    """Let the schedules and the optimizer's settings in the config replace those of a checkpoint.

    mmengine restores all from the checkpoint: with more epochs, a finished training would continue
    with its last learning rate, which is almost 0 after a cosine. Only what has changed in the
    config since the training began is replaced; optimizers may keep values of their own beside it.

    Args:
        runner: A runner that has not trained yet.
        checkpoint: Its contents to be loaded, changed in place.
    """
    schedulers: Any = runner.param_schedulers or []
    meta = checkpoint['meta']
    begun = settings_of(runner)
    schedules = [
        [{k: v for k, v in state.items() if k not in PROGRESS} for state in states]
        for states in (
            without_functions(s.state_dict() for s in schedulers),
            checkpoint.get('param_schedulers', ()),
        )
    ]
    followed = set()
    if schedules[0] != schedules[1]:
        names = {state['param_name'] for states in schedules for state in states}
        followed = names | {f'initial_{name}' for name in names} | {'betas'} & begun[0].keys()
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)  # of steps without the optimizer
            counts = min(meta['iter'], runner.max_iters), min(meta['epoch'], runner.max_epochs)
            for by_epoch, steps in zip((False, True), counts, strict=True):
                for scheduler in [s for s in schedulers if s.by_epoch == by_epoch] * steps:
                    scheduler.step()
        checkpoint['param_schedulers'] = [s.state_dict() for s in schedulers]
        runner.logger.info('The learning rate follows the config, not the checkpoint.')
    saved = checkpoint['optimizer']
    groups = [*saved['param_groups'], saved.get('base_param_settings') or {}]
    before = meta.get('settings') or begun
    old_lr, new_lr = (float(x[0].get('initial_lr', x[0]['lr'])) for x in (before, begun))
    if old_lr != new_lr:
        runner.logger.warning(
            f'The training began with a learning rate of {old_lr:g} and continues with {new_lr:g}, '
            'that of the config and options now (such as --auto-scale-lr).'
        )
    for group, new, old, now in zip(groups, begun, before, settings_of(runner), strict=True):
        changed = followed | {key for key, value in new.items() if value != old.get(key)}
        group.update({key: now[key] for key in changed & now.keys()})


def without_functions(states: Iterable[dict]) -> list[dict]:
    """Leave out the functions in states of schedulers, which do not load as weights only."""
    return [{k: v for k, v in state.items() if not callable(v)} for state in states]


def settings_of(runner: Runner) -> list[dict]:
    """Copy the optimizer's settings of each group of parameters, and those that mmengine logs."""
    wrapper: Any = runner.optim_wrapper
    if isinstance(wrapper, OptimWrapperDict):  # several, which are not compared
        return []
    groups = [*wrapper.optimizer.param_groups, wrapper.base_param_settings or {}]
    # deep, because a rate in a tensor is changed in place
    return [{k: deepcopy(v) for k, v in group.items() if k != 'params'} for group in groups]


def faults(runner: Runner, checkpoint: dict) -> Iterator[str]:
    """Find what mmengine would silently leave out, or fail at later, when it resumes."""
    meta = checkpoint.get('meta', {})
    counts = [meta.get(key) for key in ('epoch', 'iter')]
    if not all(isinstance(x, int) and x >= 0 for x in counts) or 'message_hub' not in checkpoint:
        yield 'it does not say how far it was trained'
    asked, seed = runner.cfg.get('randomness', {}).get('seed'), meta.get('seed')
    if asked not in (None, seed):
        yield f'it has the seed {seed}, and randomness.seed is {asked}'
    weights = checkpoint.get('state_dict', {})
    for name, value in unwrapped_model(runner).state_dict().items():
        x = weights.get(name, value)
        if x.is_complex() or x.is_floating_point() != value.is_floating_point():
            yield f'{name} is of {x.dtype}'
        elif name.endswith('running_var') and (x < 0).any():
            yield f'{name} is negative'
    expected = runner.optim_wrapper.state_dict()
    saved = checkpoint.get('optimizer', {})
    sizes = [
        [len(group['params']) for group in state.get('param_groups', ())]
        for state in (expected, saved)
    ]
    if sizes[0] != sizes[1]:
        yield 'its optimizer has other parameters'
    groups = runner.optim_wrapper.optimizer.param_groups
    parameters = [p for group in groups for p in group['params']]
    for i, state in saved.get('state', {}).items():
        for key, x in state.items():
            if isinstance(x, torch.Tensor) and x.ndim > 0:
                shape = parameters[i].shape
                fits = key not in MOMENTS or (x.shape == shape and x.is_floating_point())
                if not fits or not x.isfinite().all():
                    yield f'{key} of its optimizer does not fit a parameter'
