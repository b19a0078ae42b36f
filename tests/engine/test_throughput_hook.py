from pathlib import Path

import pytest

from cvrl_mm.engine import ThroughputHook
from tests.toy import toy_runner

WINDOW = 3


def take_steps(folder: Path, waits: list[float]) -> tuple[object, list[str], ThroughputHook]:
    """Take steps of 0.5 s on 4 videos each, of which ``waits`` were spent waiting."""
    runner = toy_runner(folder, log_processor=dict(window_size=WINDOW))
    runner.train_loop  # noqa: B018  builds the loader
    hints: list[str] = []
    runner.logger.warning = hints.append
    hook = ThroughputHook()
    hook.before_train(runner)
    for step, wait in enumerate(waits):
        runner.message_hub.update_scalar('train/time', 0.5)
        runner.message_hub.update_scalar('train/data_time', wait)
        hook.after_train_iter(runner, step)
    return runner.message_hub, hints, hook


def test_counts_videos_and_the_share_of_waiting_over_the_window(tmp_path: Path):
    hub, hints, _ = take_steps(tmp_path, [0.4, 0.1, 0.1, 0.1])
    assert hub.get_scalar('train/videos_per_second').current() == pytest.approx(8)
    shares, _ = hub.get_scalar('train/waiting_for_data').data
    assert shares == pytest.approx([0.8, 0.5, 0.4, 0.2])
    assert not hints  # the start is not held against the loader


def test_hints_once(tmp_path: Path):
    _, hints, _ = take_steps(tmp_path, [0.2] * 9)
    (hint,) = hints
    assert hint.startswith('40% of the training time') and 'num_workers' in hint


def test_is_quiet_below_a_third(tmp_path: Path):
    assert not take_steps(tmp_path, [0.16] * 9)[1]


def test_refuses_a_share_out_of_range():
    with pytest.raises(ValueError, match='max_share'):
        ThroughputHook(max_share=1.5)


def test_is_in_the_log_of_a_run(tmp_path: Path):
    runner = toy_runner(
        tmp_path,
        custom_hooks=[dict(type='ThroughputHook')],
        default_hooks=dict(logger=dict(type='LoggerHook', interval=1)),
        log_level='INFO',
    )
    runner.train()
    (log,) = tmp_path.glob('*/*.log')
    assert 'videos_per_second: ' in log.read_text() and 'waiting_for_data: ' in log.read_text()
