import pytest

from cvrl_mm.own_videos.options import Options


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(hours=1, steps=3), 'exclude each other'),
        (dict(encoder='resnet'), 'one of .*small'),
        (dict(encoder='small', init='a.pth'), 'determines the architecture'),
        (dict(batch_size=1), 'batch_size must be from 2'),
        (dict(hours=0), 'hours must be from'),
        (dict(lr=float('nan')), 'lr must be from'),
        (dict(size=16), 'size must be from 32'),
        (dict(workers=-1), 'workers must be from 0'),
        (dict(seed=-1), 'seed must be from 0'),
        (dict(seed=2**32), 'seed must be from 0'),
        (dict(steps=10**23), 'steps must be from 1'),
        (dict(hours=1e308), 'hours must be from'),
        (dict(frame_interval=10**21), 'frame_interval must be from'),
        (dict(lr=1e300), 'lr must be from'),
        (dict(steps=0), 'steps must be from 1'),
        (dict(segment_seconds=float('inf')), 'segment_seconds must be from'),
    ],
)
def test_wrong_options(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def test_defaults_and_limits_are_valid():
    Options(size=32, batch_size=2, workers=0, steps=1, segment_seconds=0.5)
    assert Options().segment_seconds == 30
