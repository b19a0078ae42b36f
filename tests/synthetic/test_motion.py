from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from cvrl_mm.datasets import VideoFile, VideoListDataset
from cvrl_mm.synthetic import motion
from cvrl_mm.synthetic.motion import (
    CLASSES,
    NUM_FRAMES,
    PATHS,
    RADIUS,
    SIZE,
    STRUCTURES,
    TRANSFER_CLASSES,
    Camera,
    MotionClasses,
    MotionScene,
    render_video,
    write_motion_videos,
)

SETS = (CLASSES, TRANSFER_CLASSES)


def scene(path: str, structure: str = 'disc', seed: int = 0, fast: bool = False) -> MotionScene:
    classes = MotionClasses((path,), (structure,))
    return MotionScene.draw(int(fast), np.random.default_rng(seed), classes)


def wrapped(distance: np.ndarray) -> np.ndarray:
    return (distance + SIZE / 2) % SIZE - SIZE / 2


def moved(scene: MotionScene) -> np.ndarray:
    """Displacements from frame to frame, (T - 1, N, 2), the short way round the torus."""
    return wrapped(np.diff(scene.centres(12), axis=0))


@pytest.mark.parametrize(
    ('label', 'classes', 'means'),
    [
        (0, CLASSES, (101.748, 102.991, 52.822)),
        (5, CLASSES, (104.571, 105.197, 57.686)),
        (5, TRANSFER_CLASSES, (95.568, 95.635, 53.063)),
        (11, TRANSFER_CLASSES, (118.158, 115.470, 57.586)),
    ],
)
def test_frames_of_a_seed_stay_the_same(label: int, classes: MotionClasses, means: tuple):
    """Published accuracies depend on them; if they must change, increase VERSION."""
    frames = render_video(label, np.random.default_rng([0, 0, label]), classes)
    found = (frames.mean(), frames[:, :32].mean(), frames[20:].std())
    assert found == pytest.approx(means, abs=0.01)


# -- classes -----------------------------------------------------------------------------------


@pytest.mark.parametrize('classes', SETS)
def test_a_structure_leaves_two_classes_of_different_paths_and_speeds(classes: MotionClasses):
    scenes = [MotionScene.draw(i, np.random.default_rng(0), classes) for i in range(16)]
    names = [f'{s.structure}, {"slow" if s.speed < 1 else "fast"} {s.path}' for s in scenes]
    assert names == list(classes.names)
    assert len(set(names)) == 16
    for structure in classes.structures:
        labels = [label for label in range(16) if classes.structure(label) == structure]
        assert len(labels) == len({classes.path(label) for label in labels}) == 2
        assert {label % 2 for label in labels} == {0, 1}


def test_the_sets_share_no_path_and_no_structure():
    assert not set(CLASSES.paths) & set(TRANSFER_CLASSES.paths)
    assert not set(CLASSES.structures) & set(TRANSFER_CLASSES.structures)


def test_what_the_class_does_not_set_does_not_depend_on_it():
    first, second = (MotionScene.draw(label, np.random.default_rng(5)) for label in (0, 15))
    assert (first.texture, first.radius, first.side) == (second.texture, second.radius, second.side)
    np.testing.assert_array_equal(first.anchors, second.anchors)
    np.testing.assert_array_equal(first.camera.noise, second.camera.noise)


def test_palettes_are_related_to_the_path_in_some_videos():
    drawn = [MotionScene.draw(6, np.random.default_rng(seed)).palette for seed in range(500)]
    shares = np.bincount(drawn, minlength=8) / len(drawn)
    assert shares[3] == pytest.approx(0.65, abs=0.06)
    assert np.delete(shares, 3) == pytest.approx(0.05, abs=0.04)


# -- motion ------------------------------------------------------------------------------------


@pytest.mark.parametrize('path', [name for name, (kind, *_) in PATHS.items() if kind == 'drift'])
def test_drift_goes_to_both_sides_but_only_up_or_down(path: str):
    _, x, y = PATHS[path]
    steps = np.concatenate([moved(scene(path, seed=s)).reshape(-1, 2) for s in range(8)])
    assert set(np.sign(steps[:, 0]).tolist()) == ({-1, 1} if x else {0})
    assert set(np.sign(steps[:, 1]).tolist()) == {np.sign(y)}


@pytest.mark.parametrize('path', PATHS)
def test_fast_is_faster_and_one_frame_tells_no_path(path: str):
    slow, fast = (
        np.mean([abs(moved(scene(path, seed=s, fast=f))).max() for s in range(8)])
        for f in (False, True)
    )
    assert fast > 1.8 * slow
    for frame in (0, 17):
        scenes = [scene(path, seed=seed) for seed in range(200)]
        positions = np.concatenate([s.centres(frame + 1)[frame] for s in scenes])
        for axis in range(2):
            assert kstest(positions[:, axis] / SIZE, 'uniform').pvalue > 0.01


def test_closed_paths_have_their_shapes():
    def away(path: str) -> np.ndarray:
        it = scene(path, fast=True)
        return wrapped(it.centres(40) - it.anchors)

    np.testing.assert_allclose(np.linalg.norm(away('circle'), axis=-1), RADIUS)
    for path, still in (('horizontal swing', 1), ('vertical swing', 0)):
        np.testing.assert_allclose(away(path)[..., still], 0, atol=1e-9)
        along = away(path)[..., 1 - still]
        assert (along.max(), along.min()) == pytest.approx((RADIUS, -RADIUS), abs=0.5)
    diagonal = abs(away('diagonal swing'))
    np.testing.assert_allclose(diagonal[..., 0], diagonal[..., 1], atol=1e-9)
    assert np.linalg.norm(away('figure eight'), axis=-1).min() < 1.5
    turns = {float(np.sign(np.linalg.det(moved(scene('circle', seed=s))[:2, 0]))) for s in range(8)}
    assert turns == {-1, 1}


# -- images ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('structure', 'width', 'height', 'area'),
    [
        ('disc', 10.8, 10.8, np.pi * 5.4**2),
        ('horizontal bar', 18, 3.96, 18 * 3.96),
        ('vertical bar', 3.96, 18, 18 * 3.96),
        ('plus', 18, 18, 2 * 18 * 3.96 - 3.96**2),
        ('ring', 12, 12, np.pi * (6**2 - 3.6**2)),
        ('square', 9.6, 9.6, 9.6**2),
        ('diamond', 13.6, 13.6, 9.6**2),
        ('cross', 15.5, 15.5, 2 * 18 * 3.96 - 3.96**2),
        ('wide oval', 15.6, 7.2, np.pi * 7.8 * 3.6),
        ('tall oval', 7.2, 15.6, np.pi * 7.8 * 3.6),
        ('frame', 12, 12, 12**2 - 7.2**2),
        ('hollow diamond', 17, 17, 12**2 - 7.2**2),
        ('T', 13.2, 13.4, (13.2 + 9.42) * 3.96),
        ('H', 13.56, 13.2, 2 * 13.2 * 3.96 + 9.6 * 3.96 - 2 * 1.98 * 3.96),
        ('two bars', 13.2, 7.92, 2 * 13.2 * 3.96),
        ('two columns', 7.92, 13.2, 2 * 13.2 * 3.96),
    ],
)
def test_one_object_covers_what_its_structure_says(
    structure: str, width: float, height: float, area: float
):
    offset = np.arange(64, dtype=np.float32) - 32
    shape = STRUCTURES[structure]
    distance = shape(offset.reshape(1, 1, 1, -1), offset.reshape(1, 1, -1, 1), 6.0)[0]
    cover = np.clip(0.5 - distance, 0, 1)
    assert (cover.max(0).sum(), cover.max(1).sum()) == pytest.approx((width, height), abs=0.7)
    assert cover.sum() == pytest.approx(area, rel=0.06)


def test_objects_wrap_round_the_edges():
    corner = replace(scene('down', 'T'), anchors=np.zeros((1, 2)), speed=0)
    centre = replace(corner, anchors=np.full((1, 2), SIZE / 2))
    rolled = np.roll(corner.cover(1), (SIZE // 2, SIZE // 2), axis=(1, 2))
    np.testing.assert_allclose(rolled, centre.cover(1), atol=1e-5)


@pytest.mark.parametrize(
    ('changes', 'rgb', 'expected'),
    [
        ({}, (10, 100, 200), (10, 100, 200)),
        (dict(gain=2), (10, 100, 200), (20, 200, 255)),
        (dict(contrast=0.5), (28, 128, 228), (78, 128, 178)),
        (dict(hue=1 / 3), (200, 0, 0), (0, 200, 0)),
        (dict(saturation=0.5), (200, 0, 0), (200, 100, 100)),
        (dict(noise=np.full((2, 2), 7, np.float32)), (10, 100, 200), (17, 107, 207)),
    ],
)
def test_camera(changes: dict, rgb: tuple, expected: tuple):
    neutral = dict(gain=1, contrast=1, saturation=1, hue=0, noise=np.zeros((2, 2), np.float32))
    image = Camera(**{**neutral, **changes}).apply(np.full((2, 2, 3), rgb, np.float32))
    np.testing.assert_allclose(image, np.full((2, 2, 3), expected), atol=0.01)


def test_some_videos_begin_or_end_with_another_scene_before_the_same_camera(monkeypatch):
    drawn, render = [], MotionScene.render

    def note(scene: MotionScene, num_frames: int) -> np.ndarray:
        drawn[-1].append((scene, num_frames))
        return render(scene, num_frames)

    monkeypatch.setattr(MotionScene, 'render', note)
    first = 0
    for seed in range(100):
        drawn.append([])
        frames = render_video(3, np.random.default_rng(seed))
        assert len(frames) == NUM_FRAMES
        if len(drawn[-1]) == 2:
            (scene, num_frames), (other, num_other) = drawn[-1]
            assert other.camera is scene.camera
            assert (scene.structure, scene.path) == (CLASSES.structure(3), 'down')
            assert 8 <= num_other == NUM_FRAMES - num_frames <= 16
            first += (frames[:num_other] == render(other, num_other)).all()
    others = [videos[1][0] for videos in drawn if len(videos) == 2]
    assert 30 <= len(others) <= 50
    assert 0.3 * len(others) < first < 0.7 * len(others)
    assert len({(s.structure, s.path) for s in others}) > 8


# -- files -------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('sets') / 'motion'
    write_motion_videos(root, num_train=32, num_test=16, seed=3)
    return root


def test_lists_are_balanced_and_read_by_the_dataset(root: Path):
    for split, of_each in (('train', 2), ('test', 1)):
        dataset = VideoListDataset(
            ann_file=str(root / f'{split}.txt'), data_prefix=dict(video=str(root)), pipeline=[]
        )
        labels = [dataset.get_data_info(i)['label'] for i in range(len(dataset))]
        assert np.bincount(labels).tolist() == [of_each] * 16
    assert (root / 'classes.txt').read_text().splitlines() == list(CLASSES.names)


def test_videos_decode_to_what_was_rendered(root: Path):
    for line in (root / 'test.txt').read_text().splitlines():
        name, label = line.split(' ')
        frames = np.stack(VideoFile(root / name).read(range(NUM_FRAMES))).astype(int)
        rng = np.random.default_rng([3, 1, int(label)])  # 16 videos: number and label agree
        rendered = render_video(int(label), rng)
        assert frames.shape == rendered.shape == (NUM_FRAMES, SIZE, SIZE, 3)
        lost = np.abs(frames - rendered).mean()
        assert lost < min(8, 0.7 * np.abs(frames[:-1] - rendered[1:]).mean())


def test_a_video_depends_on_seed_split_and_number_alone(root: Path, tmp_path: Path):
    seen = []
    write_motion_videos(
        tmp_path / 'again', 3, 2, seed=3, num_workers=1, on_progress=lambda *x: seen.append(x)
    )
    assert seen == [(i, 5) for i in range(1, 6)]
    write_motion_videos(tmp_path / 'other', 2, 1, seed=4)
    write_motion_videos(tmp_path / 'transfer', 2, 1, seed=3, classes='transfer')
    for video in (tmp_path / 'again/videos').iterdir():
        assert video.read_bytes() == (root / 'videos' / video.name).read_bytes()
    assert len({path.read_bytes() for path in tmp_path.glob('*/videos/*.mp4')}) == 5 + 3 + 3
    transfer = (tmp_path / 'transfer/classes.txt').read_text()
    assert transfer.splitlines() == list(TRANSFER_CLASSES.names)


def test_a_whole_set_is_kept_and_another_is_refused(root: Path, tmp_path: Path):
    video = next((root / 'videos').iterdir())
    before = video.stat().st_mtime_ns
    write_motion_videos(root, num_train=32, num_test=16, seed=3)
    assert video.stat().st_mtime_ns == before
    for change in (dict(seed=4), dict(classes='transfer')):
        with pytest.raises(FileExistsError, match=str(root)):
            write_motion_videos(root, **{**dict(num_train=32, num_test=16, seed=3), **change})
    (tmp_path / 'thesis.tex').touch()
    with pytest.raises(FileExistsError, match='other files'):
        write_motion_videos(tmp_path, num_train=1, num_test=1)
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.tex']


def test_an_empty_folder_behind_a_link_is_filled(tmp_path: Path):
    (tmp_path / 'disk/set').mkdir(parents=True)
    (tmp_path / 'link').symlink_to(tmp_path / 'disk/set')
    write_motion_videos(tmp_path / 'link', num_train=1, num_test=1)
    assert (tmp_path / 'disk/set/train.txt').is_file()


def test_nothing_remains_of_a_run_that_broke(tmp_path: Path, monkeypatch):
    def fail(path: Path, frames: np.ndarray) -> None:
        raise OSError('disk full')

    monkeypatch.setattr(motion, 'encode', fail)
    with pytest.raises(OSError, match='disk full'):
        write_motion_videos(tmp_path / 'set', num_train=4, num_test=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ('name', 'value'),
    [('num_train', 0), ('num_test', -1), ('seed', -1), ('num_workers', 0), ('classes', 'ucf')],
)
def test_bad_arguments(tmp_path: Path, name: str, value: object):
    with pytest.raises(ValueError, match='max_workers' if name == 'num_workers' else name):
        write_motion_videos(tmp_path / 'set', **{**dict(num_train=1, num_test=1), name: value})
    assert list(tmp_path.iterdir()) == []
