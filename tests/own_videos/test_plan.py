from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cvrl_mm.options import Options
from cvrl_mm.own_videos.inspect import Inspection, Video
from cvrl_mm.own_videos.plan import (
    ENCODERS,
    EPOCHS,
    Machine,
    Setting,
    choose,
    choose_steps,
    remarks,
    split_watched,
)

CPU = Machine(cores=2)
GPU = Machine(cores=16, ranks=4, on_gpu=True)


def made(number: int, frames: int = 60, rate: float = 30.0) -> Inspection:
    videos = [Video(f'{"ab"[i % 2]}/{i:05}.mp4', 256, 128, frames, rate) for i in range(number)]
    return Inspection(Path('/root'), videos, {}, {})


@pytest.mark.parametrize(
    ('options', 'named'),
    [
        (dict(hours=1, steps=3), 'hours'),
        (dict(encoder='resnet'), 'encoder'),
        (dict(encoder='small', init='a.pth'), 'init'),
        (dict(batch_size=1), 'batch_size'),
        (dict(lr=float('nan')), 'lr'),
        (dict(steps=4.5), 'steps'),
        (dict(segment_seconds=float('inf')), 'segment_seconds'),
    ],
)
def test_wrong_options(options: dict, named: str):
    with pytest.raises(ValueError, match=named):
        Options(**options)


@pytest.mark.parametrize(
    ('videos', 'options', 'machine', 'named'),
    [
        (made(7), Options(), CPU, '7 training videos'),
        (made(40), Options(batch_size=64), CPU, 'batch-size'),
        (made(12), Options(), Machine(2, ranks=8), '8 x 2'),
        (made(2, frames=30 * 600), Options(), CPU, '3 files'),
    ],
)
def test_too_few_videos(videos: Inspection, options: Options, machine: Machine, named: str):
    with pytest.raises(ValueError, match=named):
        choose(videos, options, machine)


def test_settings_follow_the_machine_and_the_time():
    plan = choose(made(300), Options(), CPU)
    assert all(setting.reason for setting in plan.settings.values())
    assert (len(plan.train), len(plan.watched), plan.samples) == (240, 60, 240)
    assert (plan['encoder'], plan['clip_len'], plan['size']) == ('tiny', 8, 48)
    assert (plan['batch_size'], plan['lr'], plan['workers']) == (48, 0.004, 1)
    assert plan['init'] == 'tiny'
    assert plan['segment_seconds'] is None
    plan = choose(made(20000, frames=300), Options(), GPU)
    assert (plan['encoder'], plan['clip_len'], plan['frame_interval']) == ('r3d50', 16, 2)
    assert (plan['size'], plan['batch_size']) == (128, 128)  # no larger than the videos
    assert plan['workers'] == 15
    few = choose(made(3000), Options(), GPU)
    assert (few['encoder'], few['init']) == (
        'r3d18',
        'random',
    ) and few.recipe.hidden_layers < plan.recipe.hidden_layers == 3
    fewest = choose(made(300), Options(), GPU)
    assert (fewest['encoder'], fewest['clip_len'], fewest['size']) == ('tiny', 16, 48)


def test_options_overrule():
    given: dict[str, Any] = dict(clip_len=4, frame_interval=5, size=48, batch_size=6, lr=0.1)
    plan = choose(made(100), Options(encoder='r3d18', **given), CPU)
    assert {name: plan[name] for name in given} == given and plan['encoder'] == 'r3d18'
    start = ENCODERS['r3d18']
    plan = choose(made(300), Options(init='encoder.pth'), CPU, start)
    assert plan.network is start and (plan['lr'], plan['size']) == (0.0005, 64)


@pytest.mark.parametrize(
    ('options', 'init'),
    [
        (dict(encoder='tiny'), 'tiny'),
        (dict(encoder='small'), 'random'),  # not in the package
        (dict(init='random'), 'random'),
        (dict(init='random', encoder='tiny'), 'random'),
    ],
)
def test_where_the_encoder_of_the_package_is_the_start(options: dict, init: str):
    assert choose(made(300), Options(**options), CPU)['init'] == init


@pytest.mark.parametrize(
    ('frames', 'rate', 'machine', 'interval'),
    [
        (300, 29.97, GPU, 3),  # 1.6 s, 2.997 frames
        (75, 60.0, GPU, 4),  # 90 % of 1.25 s
        (300, 30.0, CPU, 6),  # 1.6 s
        (600, 60.0, CPU, 12),  # twice as many frames in the same time
        (10, 30.0, CPU, 1),  # shorter than a clip
    ],
)
def test_spans_of_clips(frames: int, rate: float, machine: Machine, interval: int):
    assert choose(made(100, frames, rate), Options(), machine)['frame_interval'] == interval


def test_frames_of_mixed_rates_are_counted_at_one_rate():
    videos = [*made(60, frames=60, rate=30.0).videos, *made(40, frames=30, rate=15.0).videos]
    mixed = Inspection(Path('/root'), videos, {}, {})
    plan = choose(mixed, Options(frame_interval=8), CPU)
    plan.settings['steps'] = Setting(2000, 'as given')
    assert plan['fps'] == 30 and not remarks(plan, 400)  # no video is too short
    assert choose(made(100, rate=29.97), Options(), CPU)['fps'] == 29.97


@pytest.mark.parametrize(
    ('videos', 'ranks', 'batch'), [(8, 1, 4), (20, 1, 8), (60, 1, 16), (300, 2, 40)]
)
def test_batches_of_few_videos(videos: int, ranks: int, batch: int):
    assert choose(made(videos), Options(), Machine(2, ranks))['batch_size'] == batch


def test_long_files_are_several_videos():
    plan = choose(made(10, frames=30 * 95), Options(segment_seconds=30), CPU)
    assert (plan.samples, plan['segment_seconds']) == (30, 30)
    assert plan.train is plan.watched


def test_watched_videos_are_spread_over_the_folders():
    videos = made(100).videos
    train, watched = split_watched(videos, seed=0)
    assert len(train) == 80 and len(watched) == 20 and not set(train) & set(watched)
    assert [sum(v.name[0] == f for v in watched) for f in 'ab'] == [10, 10]
    assert split_watched(videos, seed=0)[1] == watched != split_watched(videos, seed=1)[1]
    assert split_watched(videos[:19], seed=0) == (videos[:19], videos[:19])
    assert len(split_watched(made(2000).videos, seed=0)[1]) == 200


def test_whole_groups_are_held_out():
    names = [f'{c}/p{person}_{i}.mp4' for c in 'ab' for person in range(6) for i in range(20)]
    videos = [Video(name, 64, 48, 60, 30.0) for name in names]
    train, watched = split_watched(videos, seed=0, groups='p([0-9])')
    people, held = ({v.name[3] for v in part} for part in (train, watched))
    assert len(held) < len(people) and not people & held and people | held == {*'012345'}
    many = [Video(f'p{i % 2}/{i}.mp4', 64, 48, 60, 30.0) for i in range(600)]
    train, watched = split_watched(many, seed=0, groups='p([01])')
    assert (len(train), len(watched)) == (300, 200)
    with pytest.raises(ValueError, match='--groups'):
        split_watched(videos, seed=0, groups='nobody([0-9])')


@pytest.mark.parametrize('number', [20, 37, 1000])
def test_a_class_of_five_has_a_watched_video(number: int):
    videos = [Video(f'{i // 5:04}/{i}.mp4', 256, 128, 60, 30) for i in range(number)]
    watched = {v.name.split('/')[0] for v in split_watched(videos, seed=0)[1]}
    assert watched >= {f'{i:04}' for i in range(number // 5)}


@pytest.mark.parametrize(
    ('options', 'seconds', 'steps'),
    [
        (dict(steps=7), 9.0, 7),
        (dict(epochs=2), 9.0, 10),
        (dict(hours=1), 1.0, 3420),
        ({}, 1, 500),  # 100 epochs
        (dict(init='random'), 1, 2000),
    ],
)
def test_steps(options: dict, seconds: float, steps: int):
    plan = choose(made(300), Options(**options), CPU)
    per_epoch = plan.samples / 48
    chosen = choose_steps(Options(**options), per_epoch, seconds, EPOCHS, plan.min_steps)
    assert chosen.value == steps


@pytest.mark.parametrize(
    ('videos', 'steps', 'frames', 'options', 'named'),
    [
        (2000, 2000, 60, {}, []),
        (100, 50, 60, {}, ['50 of at least 400 steps']),
        (100, 50, 60, dict(init='random'), ['50 of at least 2,000 steps']),
        (2000, 2000, 14, dict(frame_interval=2), ['1800 of the 1800']),
        (20, 2000, 20_000, {}, ['longer than 10 minutes']),
    ],
)
def test_what_limits_a_training_is_named(
    videos: int, steps: int, frames: int, options: dict, named: list[str]
):
    plan = choose(made(videos, frames), Options(**options), CPU)
    plan.settings['steps'] = Setting(steps, 'as given')
    found = remarks(plan, plan.min_steps)
    assert len(found) == len(named)
    assert all(part in remark for part, remark in zip(named, found, strict=True))


def test_frames_are_stored_where_this_pays():
    videos = made(100, frames=300)  # of 256x128
    roomy = replace(CPU, room=1e9)  # they take 0.52 GB

    def side(machine: Machine = roomy, **options: Any) -> int | None:
        return choose(videos, Options(size=32, batch_size=20, **options), machine)['cache']

    assert side() == side(hours=1) == side(epochs=100) == side(steps=500) == 64
    assert side(CPU) is None and side(cache=False) is None
    assert side(epochs=1) is side(steps=4) is side(hours=0.01) is None
