from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from cvrl_mm.engine import ThroughputHook, throughput_hook
from tests.toy import toy_runner

WINDOW = 3


class FakeClock:
    """A clock that the test turns; its marks are known ``lag`` seconds late."""

    def __init__(self, lag: float = 0) -> None:
        self.now, self.lag = 0.0, lag

    def mark(self) -> float:
        return self.now

    def has_passed(self, mark: float) -> bool:
        return self.now >= mark + self.lag

    def seconds(self, begin: float, end: float) -> float:
        assert self.has_passed(end)
        return end - begin


class SlowFirstStep(Hook):
    """Takes 0.5 s after the first step, as a hook that saves a checkpoint does."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: object, **kwargs: object):
        if batch_idx == 0:
            self.clock.now += 0.5


def take_steps(
    folder: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch, lag: float = 0
) -> tuple[Runner, list[str]]:
    """Take steps of 0.5 s on 4 videos: waiting, 0.05 s of moving data, computing."""
    runner = toy_runner(folder, log_processor=dict(window_size=WINDOW))
    runner.train_loop  # noqa: B018  builds the loader
    hints: list[str] = []
    runner.logger.warning = hints.append
    clock = FakeClock(lag)
    monkeypatch.setattr(throughput_hook, 'clock_of', lambda runner: clock)
    hook = ThroughputHook()
    hook.before_train(runner)
    (last,) = (h for h in runner.hooks if type(h).__name__ == '_AfterOtherHooks')
    runner._hooks = [hook, SlowFirstStep(clock), last]
    clock.now += 100  # between the epochs
    runner.call_hook('before_train_epoch')
    for step, wait in enumerate(waits):
        clock.now += wait
        runner.call_hook('before_train_iter', batch_idx=step)
        clock.now += 0.05
        runner.model.data_preprocessor(dict(x=torch.zeros(1)))
        clock.now += 0.45 - wait
        runner.call_hook('after_train_iter', batch_idx=step)
    runner.call_hook('after_train')
    return runner, hints


def values(runner: Runner, name: str) -> list[float]:
    return list(runner.message_hub.get_scalar(f'train/{name}').data[0])


def test_counts_waiting_and_moving_over_the_window(tmp_path: Path, monkeypatch):
    runner, hints = take_steps(tmp_path, [0.4, 0.1, 0.1, 0.1, 0.1], monkeypatch)
    # The second step took 1 s, of which 0.5 s went into another hook
    expected = [4 / 0.5, 8 / 1.5, 12 / 2, 12 / 2, 12 / 1.5]
    assert values(runner, 'videos_per_second') == pytest.approx(expected)
    expected = [0.4 / 0.5, 0.5 / 1.5, 0.6 / 2, 0.3 / 2, 0.3 / 1.5]
    assert values(runner, 'waiting_for_data') == pytest.approx(expected)
    expected = [0.1, 0.1 / 1.5, 0.15 / 2, 0.15 / 2, 0.1]
    assert values(runner, 'moving_data') == pytest.approx(expected)
    assert not hints  # the first window is not judged
    assert not runner.model.data_preprocessor._forward_hooks


def test_does_not_read_a_mark_before_it_has_passed(tmp_path: Path, monkeypatch):
    runner, _ = take_steps(tmp_path, [0.1] * 6, monkeypatch, lag=0.9)
    shares = values(runner, 'waiting_for_data')
    assert 0 < len(shares) < 6
    assert shares[-1] == pytest.approx(0.3 / 2)  # of the second to the fourth step


def test_hints_once(tmp_path: Path, monkeypatch):
    _, hints = take_steps(tmp_path, [0.2] * 9, monkeypatch)
    (hint,) = hints
    assert hint.startswith('40% of the training time') and 'num_workers' in hint


def test_is_quiet_below_a_third(tmp_path: Path, monkeypatch):
    assert not take_steps(tmp_path, [0.16] * 9, monkeypatch)[1]


def test_refuses_a_share_out_of_range():
    with pytest.raises(ValueError, match='max_share'):
        ThroughputHook(max_share=1.5)


class FakeEvent:
    """A substitute for a CUDA event. Each event is one millisecond after the previous one."""

    recorded = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.recorded += 1
        self.ms = FakeEvent.recorded

    def query(self) -> bool:
        return self.ms < 3

    def elapsed_time(self, end: 'FakeEvent') -> float:
        return end.ms - self.ms


def test_events_measure_in_seconds_and_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'Event', FakeEvent)
    clock = throughput_hook.CudaClock()
    marks = [clock.mark() for _ in range(3)]
    assert clock.seconds(marks[0], marks[1]) == pytest.approx(1e-3)
    assert [clock.has_passed(mark) for mark in marks] == [True, True, False]


def test_is_in_the_log_of_a_run(tmp_path: Path):
    runner = toy_runner(
        tmp_path,
        custom_hooks=[dict(type='ThroughputHook')],
        default_hooks=dict(logger=dict(type='LoggerHook', interval=1)),
        log_level='INFO',
    )
    runner.train()
    (log,) = tmp_path.glob('*/*.log')
    for name in ('videos_per_second', 'waiting_for_data', 'moving_data'):
        assert f'{name}: ' in log.read_text()
        assert len(values(runner, name)) == 4 and min(values(runner, name)) >= 0
