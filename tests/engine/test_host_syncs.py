"""No step between two log lines makes the host wait for the device."""

from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.pretraining import small_config
from tests.ranks import run_ranks

# Operations whose result or shape the host has to read
READING = ('_local_scalar_dense', 'nonzero', 'masked_select', 'is_nonzero', 'equal', '_unique2')
METHODS = ('item', 'tolist', 'cpu', '__bool__', '__float__', '__int__', '__index__')


class CountReads(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = name in ('index', 'index_put', 'index_put_') and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in READING or masks:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


class CountMethods(TorchFunctionMode):
    """On a CPU some methods read memory without an operation."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, '__name__', '') in METHODS:
            self.found.append(func.__name__)
        return func(*args, **(kwargs or {}))


class StepBegins(Hook):
    """Forget what was found before the step: the sampler computes the next order on the host."""

    priority = 'HIGHEST'

    def __init__(self, found: list[str]) -> None:
        self.found = found

    def before_train_iter(self, *args: object, **kwargs: object) -> None:
        self.found.clear()


class StepEnds(Hook):
    """Note what was found in each step, from its first hook to its last."""

    priority = 'LOWEST'

    def __init__(self, found: list[str]) -> None:
        self.found, self.steps = found, []

    def after_train_iter(self, *args: object, **kwargs: object) -> None:
        self.steps.append(self.found.copy())


def reads_per_step(data: Path, folder: str, options: dict) -> list[list[str]]:
    """Two epochs of four steps, of which the fourth one is logged."""
    settings = {
        'default_hooks.logger.interval': 4,
        'default_hooks.checkpoint.interval': 5,
        'train_cfg.max_epochs': 2,
        'train_dataloader.num_workers': 1,
    }
    runner = Runner.from_cfg(small_config(data, Path(folder), **{**settings, **options}))
    count = CountReads()
    runner.register_hook(StepBegins(count.found))
    runner.register_hook(hook := StepEnds(count.found))
    with count, CountMethods(count.found):
        runner.train()
    return hook.steps


@pytest.mark.parametrize('chunk_size', [None, 2])
def test_no_reads_between_log_lines(chunk_size: int | None, motion_set: Path, tmp_path: Path):
    steps = reads_per_step(motion_set, str(tmp_path), {'model.chunk_size': chunk_size})
    assert len(steps) == 8
    assert all(not step for i, step in enumerate(steps, 1) if i % 4), steps
    assert steps[3] and steps[7]  # the counter sees the logged ones


def test_no_reads_between_log_lines_of_two_ranks(motion_set: Path, tmp_path: Path):
    options = {'train_dataloader.batch_size': 2, 'launcher': 'none'}
    for steps in run_ranks(reads_per_step, 2, tmp_path, motion_set, str(tmp_path / 'run'), options):
        assert len(steps) == 8
        assert all(not step for i, step in enumerate(steps, 1) if i % 4), steps


def test_the_counter_sees_what_makes_the_host_wait():
    x = torch.arange(4.0)
    reads = (
        lambda: x.sum().item(),
        lambda: float(x[0]),
        lambda: bool(x[0] == 0),
        lambda: x.tolist(),
        lambda: x.cpu(),
        lambda: x[x > 1],
        lambda: x.nonzero(),
        lambda: torch.equal(x, x),
    )
    for number, read in enumerate(reads):
        count = CountReads()
        with count, CountMethods(count.found):
            read()
        assert count.found, number
