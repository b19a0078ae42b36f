from pathlib import Path
from typing import Any

import pytest

from cvrl_mm.own_videos.inspection import Inspection, Video
from cvrl_mm.own_videos.network import ENCODERS
from cvrl_mm.own_videos.options import Options
from cvrl_mm.own_videos.probe import Probe
from cvrl_mm.own_videos.settings import Machine, Setting, choose, choose_steps, remarks

CPU = Machine(cores=2)


def made(number: int, frames: int = 60, rate: float = 30.0, side: int = 128) -> Inspection:
    probe = Probe(2 * side, side, frames, rate)
    videos = [Video(f'{"ab"[i % 2]}/{i:05}.mp4', probe) for i in range(number)]
    return Inspection(Path('/root'), videos, {}, {})


def test_every_setting_has_a_reason():
    plan = choose(made(300), Options(), CPU)
    assert all(setting.reason for setting in plan.settings.values())
    assert (len(plan.train), len(plan.watched), plan.samples) == (240, 60, 240)
    assert (plan['encoder'], plan['clip_len'], plan['size']) == ('small', 8, 64)
    assert plan['batch_size'] == 32 and plan['lr'] == pytest.approx(0.004 / 2**0.5, rel=0.02)
    assert plan['workers'] == 1 and plan['window_frames'] is None


@pytest.mark.parametrize(
    ('frames', 'rate', 'interval'),
    [
        (300, 30.0, 4),  # the paper's 1.07 s
        (300, 29.97, 4),  # 3.996 frames
        (60, 30.0, 3),  # half of 2 s
        (600, 60.0, 8),  # twice as many frames in the same time
        (10, 30.0, 1),  # shorter than a clip
    ],
)
def test_a_clip_spans_the_papers_time_or_half_a_video(frames: int, rate: float, interval: int):
    assert choose(made(100, frames, rate), Options(), CPU)['frame_interval'] == interval


def test_options_overrule():
    options = Options(encoder='r3d18', clip_len=4, frame_interval=5, size=48, batch_size=6, lr=0.1)
    plan = choose(made(100), options, CPU)
    for name in ('encoder', 'clip_len', 'frame_interval', 'size', 'batch_size', 'lr'):
        assert plan[name] == getattr(options, name)
        assert plan.settings[name].reason == 'as given'


def test_short_trainings_on_a_cpu_get_the_tiny_encoder():
    assert choose(made(300), Options(hours=0.5), CPU)['encoder'] == 'tiny'
    assert choose(made(300), Options(hours=1), CPU)['encoder'] == 'small'
    assert choose(made(300), Options(hours=0.5), Machine(8, 1, on_gpu=True))['encoder'] == 'r3d18'


def test_gpus():
    gpus = Machine(16, ranks=4, on_gpu=True)
    plan = choose(made(20000, frames=300), Options(), gpus)
    assert (plan['encoder'], plan['clip_len'], plan['frame_interval']) == ('r3d50', 16, 2)
    assert plan['size'] == 128  # no larger than the videos
    assert plan['batch_size'] == 128 and plan['precision']
    assert choose(made(300), Options(), gpus)['encoder'] == 'r3d18'


@pytest.mark.parametrize(
    ('grey', 'options', 'colour'),
    [
        (0, Options(), 'full'),
        (40, Options(), 'full'),
        (60, Options(), 'brightness'),
        (60, Options(colour=False), 'none'),
    ],
)
def test_colours_of_grey_videos_are_left(grey: int, options: Options, colour: str):
    found = [Video(f'{i}.mp4', Probe(64, 64, 60, 30.0, i < grey)) for i in range(100)]
    assert choose(Inspection(Path('/root'), found, {}, {}), options, CPU)['colour'] == colour


def test_long_files_are_several_videos():
    plan = choose(made(10, frames=30 * 95), Options(segment_seconds=30), CPU)
    assert (plan.samples, plan['window_frames']) == (30, 900)
    assert not plan.held_out and plan.train == plan.watched


@pytest.mark.parametrize(
    ('videos', 'ranks', 'batch'), [(8, 1, 4), (14, 1, 4), (20, 1, 8), (60, 1, 8), (300, 2, 16)]
)
def test_batches_of_few_videos(videos: int, ranks: int, batch: int):
    assert choose(made(videos), Options(), Machine(2, ranks))['batch_size'] == batch


def test_too_few_videos_are_refused():
    with pytest.raises(ValueError, match=r'7 training videos are too few.*at least 8'):
        choose(made(7), Options(), CPU)
    with pytest.raises(ValueError, match=r'batch of 64 .* at most 32'):
        choose(made(40), Options(batch_size=64), CPU)
    with pytest.raises(
        ValueError, match=r'batch of 16 .* there are 12; train on at most 6 devices'
    ):
        choose(made(12), Options(), Machine(2, ranks=8))


def test_one_or_two_long_files_are_refused():
    for files in (1, 2):
        with pytest.raises(ValueError, match=rf'least 3 files are .* got {files}\. Cut a'):
            choose(made(files, frames=30 * 600), Options(), CPU)
    assert choose(made(3, frames=30 * 600), Options(), CPU).samples == 60


def test_steps():
    plan = choose(made(300), Options(), CPU)
    assert choose_steps(plan, Options(steps=7), 32, float('nan')).value == 7
    assert choose_steps(plan, Options(epochs=2), 32, float('nan')).value == 15
    assert choose_steps(plan, Options(hours=1), 32, 1.0).value == 3420
    default = choose_steps(plan, Options(), 32, 1.8)
    assert default.value == 2000 and 'about 1.0 hours' in default.reason


def test_what_limits_a_training_is_named():
    def named(videos: int, steps: int, *, frames: int = 60, **given: Any) -> list[str]:
        options = Options(**given)
        plan = choose(made(videos, frames), options, CPU)
        plan.settings['steps'] = Setting(steps, 'as given')
        return remarks(plan, options)

    assert named(2000, 2000) == []
    few_videos, few_steps = named(100, 50)
    assert '80 videos are few' in few_videos and '--init' in few_videos
    assert few_steps.startswith('50 steps are too few')
    assert named(100, 2000, init='x') == []
    (short,) = named(2000, 2000, frame_interval=2, frames=14)
    assert '1800 of the 1800 training videos are shorter than a clip' in short
    assert 'which spans 15 frames' in short
    assert named(2000, 2000, frame_interval=2, frames=15) == []


def test_weights_to_start_from_lower_the_rate():
    start = ENCODERS['r3d18']
    plan = choose(made(300), Options(init='encoder.pth'), CPU, start)
    assert plan.network is start and plan['encoder'] == 'encoder.pth'
    assert plan['lr'] == pytest.approx(0.004 / 2**0.5 / 4, rel=0.02)
