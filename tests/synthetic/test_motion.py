from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.datasets import VideoFile, VideoListDataset
from cvrl_mm.synthetic.motion import (
    CLASSES,
    NUM_FRAMES,
    SIZE,
    TRANSFER_CLASSES,
    MotionScene,
    render_video,
    write_motion_videos,
)

SETS = (CLASSES, TRANSFER_CLASSES)


@pytest.mark.parametrize(
    ('classes', 'expected'),
    [
        (
            CLASSES,
            (50.97, 34.52, 58.92, 48.58, 51.07, 46.0, 44.76, 55.95)
            + (40.22, 54.38, 62.09, 51.35, 44.98, 56.47, 41.8, 55.99),
        ),
        (
            TRANSFER_CLASSES,
            (47.26, 32.82, 52.18, 45.47, 55.62, 44.42, 44.89, 57.76)
            + (42.36, 62.07, 59.59, 49.15, 49.73, 55.54, 46.58, 59.39),
        ),
    ],
    ids=['motion', 'transfer'],
)
def test_scenes_of_a_seed_stay_the_same(classes: tuple, expected: tuple):
    """Published accuracies depend on them; if they must change, increase VERSION."""
    ramp = np.linspace(0, 1, SIZE)[:, None, None] * np.linspace(0, 2, SIZE)[:, None]
    scenes = [MotionScene.draw(label, np.random.default_rng(label), classes) for label in range(16)]
    found = [(scene.render(9)[8] * ramp).mean() for scene in scenes]
    assert found == pytest.approx(expected, abs=0.02)


def test_a_structure_leaves_two_classes_of_different_paths_and_speeds():
    for classes in SETS:
        for structure in (kind.structure for kind in classes):
            first, second = (kind for kind in classes if kind.structure == structure)
            assert first.path != second.path and first.is_fast != second.is_fast
    for ours, theirs in zip(*(zip(*classes, strict=True) for classes in SETS), strict=True):
        assert not set(ours) & set(theirs) - {False, True}


def test_some_videos_begin_or_end_with_another_scene():
    cuts = []
    for seed in range(60):
        frames = render_video(0, np.random.default_rng(seed)).astype(int)
        changes = np.median(abs(np.diff(frames, axis=0)), axis=(1, 2, 3))  # of the background
        assert len(frames) == NUM_FRAMES
        cuts += (1 + np.flatnonzero(changes)).tolist()
    assert 15 <= len(cuts) <= 33  # 40 %
    assert all(8 <= cut <= 16 or 24 <= cut <= 32 for cut in cuts)
    assert min(cuts) < 20 < max(cuts)


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
    assert (root / 'classes.txt').read_text().splitlines() == [kind.name for kind in CLASSES]


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
    write_motion_videos(tmp_path / 'again', 3, 2, seed=3, on_progress=lambda *x: seen.append(x))
    assert seen == [(i, 5) for i in range(1, 6)]
    write_motion_videos(tmp_path / 'other', 2, 1, seed=4)
    write_motion_videos(tmp_path / 'transfer', 2, 1, seed=3, classes='transfer')
    for video in (tmp_path / 'again/videos').iterdir():
        assert video.read_bytes() == (root / 'videos' / video.name).read_bytes()
    assert len({path.read_bytes() for path in tmp_path.glob('*/videos/*.mp4')}) == 5 + 3 + 3


def test_a_whole_set_is_kept_and_another_is_refused(root: Path, tmp_path: Path):
    video = next((root / 'videos').iterdir())
    before = video.stat().st_mtime_ns
    write_motion_videos(root, num_train=32, num_test=16, seed=3)
    assert video.stat().st_mtime_ns == before
    for change in (dict(seed=4), dict(classes='transfer')):
        with pytest.raises(ValueError, match=str(root)):
            write_motion_videos(root, **{**dict(num_train=32, num_test=16, seed=3), **change})
    (tmp_path / 'thesis.tex').touch()
    with pytest.raises(ValueError, match='other files'):
        write_motion_videos(tmp_path, num_train=1, num_test=1)


def test_an_interrupted_set_is_completed(tmp_path: Path):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_motion_videos(tmp_path / 'set', num_train=4, num_test=1, on_progress=stop)
    assert not (tmp_path / 'set/train.txt').exists()
    write_motion_videos(tmp_path / 'set', num_train=4, num_test=1)
    assert len([*(tmp_path / 'set/videos').iterdir()]) == 5
    assert (tmp_path / 'set/test.txt').exists()
