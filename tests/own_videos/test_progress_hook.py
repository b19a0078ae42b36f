import re
from types import SimpleNamespace

import pytest
from mmengine.logging import MessageHub

from cvrl_mm.own_videos import progress_hook
from cvrl_mm.own_videos.progress_hook import ProgressHook


def runner(name: str, steps: int) -> SimpleNamespace:
    hub = MessageHub.get_instance(name)
    for value in (8.0, 4.0):
        hub.update_scalar('train/loss', value)
        hub.update_scalar('train/accuracy', value / 16)
    processor = SimpleNamespace(window_size=2)
    return SimpleNamespace(
        iter=0,
        max_iters=steps,
        message_hub=hub,
        log_processor=processor,
        train_dataloader=SimpleNamespace(batch_size=4),
    )


def test_lines_without_a_terminal(capsys, monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 1.0, 31.0, 31.0, 32.0, 32.0])
    monkeypatch.setattr(progress_hook, 'monotonic', lambda: next(clock))
    made, hook = runner('lines', 3), ProgressHook()
    hook.before_train(made)
    for made.iter in range(3):
        hook.after_train_iter(made, made.iter)
    hook.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ['2/3', '3/3']  # after 30 s, and the last step
    assert '0:00:00 left' not in lines[1] and re.search(r' \d+:\d\d:\d\d left ', lines[0])
    assert (
        'loss 6.00  accuracy 38% (chance 25%)' in lines[0] and 'nan' in lines[0]
    )  # not logged: videos/s


@pytest.mark.parametrize(('rate', 'shown'), [(112.4, ' 112 videos/s'), (3.14, ' 3.1 videos/s')])
def test_the_rate_is_readable(rate: float, shown: str, capsys):
    made, hook = runner(f'rate {rate}', 1), ProgressHook()
    made.message_hub.update_scalar('train/videos_per_second', rate)
    hook.before_train(made)
    hook.after_train_iter(made, 0)
    hook.close()
    assert shown in capsys.readouterr().err


def test_closing_before_the_start_is_allowed():
    ProgressHook().close()
