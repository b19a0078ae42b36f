from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.datasets import VideoFile, VideoListDataset
from cvrl_mm.synthetic import motion_videos
from cvrl_mm.synthetic.motion_scene import CLASSES, SIZE, TRANSFER_CLASSES, MotionScene
from cvrl_mm.synthetic.motion_videos import NUM_FRAMES, render_video, write_motion_videos


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('sets') / 'motion'
    write_motion_videos(root, num_train=32, num_test=16, seed=3)
    return root


def test_lists_are_balanced_and_read_by_the_dataset(root):
    for split, of_each in (('train', 2), ('test', 1)):
        dataset = VideoListDataset(
            ann_file=str(root / f'{split}.txt'), data_prefix=dict(video=str(root)), pipeline=[]
        )
        labels = [dataset.get_data_info(i)['label'] for i in range(len(dataset))]
        assert np.bincount(labels).tolist() == [of_each] * len(CLASSES.names)
    assert (root / 'classes.txt').read_text().splitlines() == list(CLASSES.names)


def test_videos_decode_to_what_was_rendered(root):
    for line in (root / 'test.txt').read_text().splitlines():
        name, label = line.split(' ')
        frames = np.stack(VideoFile(root / name).read(range(NUM_FRAMES)))
        assert frames.shape == (NUM_FRAMES, SIZE, SIZE, 3)
        rng = np.random.default_rng([3, 1, int(label)])  # 16 videos: number and label agree
        rendered = render_video(int(label), rng)
        lost = np.abs(frames.astype(int) - rendered).mean()
        assert lost < 8
        assert lost < 0.7 * np.abs(frames[:-1].astype(int) - rendered[1:]).mean()


def test_some_videos_begin_or_end_with_another_scene_before_the_same_camera(monkeypatch):
    drawn = []
    render = MotionScene.render

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
            assert 8 <= num_other <= 16
            assert num_frames == NUM_FRAMES - num_other
            first += (frames[:num_other] == render(other, num_other)).all()
    second_scenes = [videos[1][0] for videos in drawn if len(videos) == 2]
    assert 30 <= len(second_scenes) <= 50
    assert 0.3 * len(second_scenes) < first < 0.7 * len(second_scenes)
    assert len({(s.structure, s.path) for s in second_scenes}) > 8


def test_the_set_for_transfer_has_other_classes(tmp_path):
    write_motion_videos(tmp_path / 'set', num_train=16, num_test=1, classes='transfer')
    assert (tmp_path / 'set/classes.txt').read_text().splitlines() == list(TRANSFER_CLASSES.names)
    assert (tmp_path / 'set/train.txt').read_text().splitlines()[-1].endswith(' 15')
    with pytest.raises(FileExistsError, match=r'"transfer".* not the set of .*"motion"'):
        write_motion_videos(tmp_path / 'set', num_train=16, num_test=1)


def test_a_seed_repeats_whatever_the_workers(root, tmp_path):
    write_motion_videos(tmp_path / 'again', num_train=4, num_test=2, seed=3, num_workers=1)
    for video in (tmp_path / 'again' / 'videos').iterdir():
        assert video.read_bytes() == (root / 'videos' / video.name).read_bytes()


def test_splits_and_seeds_differ(tmp_path):
    write_motion_videos(tmp_path / 'a', num_train=1, num_test=1, seed=0)
    write_motion_videos(tmp_path / 'b', num_train=1, num_test=1, seed=1)
    videos = {path.read_bytes() for path in tmp_path.glob('*/videos/*.mp4')}
    assert len(videos) == 4


def test_one_frame_does_not_tell_the_motion_by_where_it_is_bright():
    """With one shape and palette, the mean frames of the motions differ no more than by chance."""
    means = [
        [
            replace(scene, structure='disc', palette=0).render(1)[0]
            for scene in (
                MotionScene.draw(label, np.random.default_rng([seed, label])) for seed in range(120)
            )
        ]
        for label in range(16)
    ]
    grey = np.mean(means, axis=-1).reshape(16, 120, 8, 8, 8, 8).mean(axis=(3, 5))  # coarse
    spread = grey.std(axis=1).mean() / np.sqrt(120)  # of a mean over one motion's videos
    assert np.abs(grey.mean(axis=1) - grey.mean(axis=(0, 1))).max() < 4.5 * spread


def test_a_whole_set_is_kept_and_another_is_refused(root):
    video = next((root / 'videos').iterdir())
    before = video.stat().st_mtime_ns
    write_motion_videos(root, num_train=32, num_test=16, seed=3)
    assert video.stat().st_mtime_ns == before
    with pytest.raises(FileExistsError, match=r'holds .*"seed": 3.* not the set of .*"seed": 4'):
        write_motion_videos(root, num_train=32, num_test=16, seed=4)


@pytest.mark.parametrize('seed', [0, 1])
def test_the_same_set_may_appear_meanwhile(tmp_path, monkeypatch, seed):
    write_videos = motion_videos._write_videos

    def write_twice(*args) -> None:
        write_videos(*args)
        monkeypatch.setattr(motion_videos, '_write_videos', write_videos)
        write_motion_videos(tmp_path / 'set', num_train=1, num_test=1, seed=seed)

    monkeypatch.setattr(motion_videos, '_write_videos', write_twice)
    with nullcontext() if seed == 0 else pytest.raises(FileExistsError, match='"seed": 1'):
        write_motion_videos(tmp_path / 'set', num_train=1, num_test=1, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ['set']


def test_a_damaged_settings_file_is_refused(tmp_path):
    write_motion_videos(tmp_path / 'set', num_train=1, num_test=1)
    (tmp_path / 'set/settings.json').write_text('')
    with pytest.raises(FileExistsError, match='choose another folder or remove this one'):
        write_motion_videos(tmp_path / 'set', num_train=1, num_test=1)


def test_foreign_files_are_left_alone(tmp_path):
    (tmp_path / 'thesis.tex').write_text('…')
    with pytest.raises(FileExistsError, match='holds other files'):
        write_motion_videos(tmp_path, num_train=1, num_test=1)
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.tex']


def test_an_empty_folder_behind_a_link_is_filled(tmp_path):
    (tmp_path / 'disk' / 'set').mkdir(parents=True)
    (tmp_path / 'link').symlink_to(tmp_path / 'disk' / 'set')
    write_motion_videos(tmp_path / 'link', num_train=1, num_test=1)
    assert (tmp_path / 'link').is_symlink()
    assert (tmp_path / 'disk' / 'set' / 'train.txt').is_file()


def test_nothing_remains_of_a_run_that_broke(tmp_path, monkeypatch):
    encode, calls = motion_videos.encode, []

    def encode_two(path: Path, frames: np.ndarray) -> None:
        calls.append(path)
        if len(calls) > 2:
            raise OSError('disk full')
        encode(path, frames)

    monkeypatch.setattr(motion_videos, 'encode', encode_two)
    with pytest.raises(OSError, match='disk full'):
        write_motion_videos(tmp_path / 'set', num_train=4, num_test=1)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told(tmp_path):
    seen = []
    write_motion_videos(
        tmp_path / 'set', num_train=2, num_test=1, on_progress=lambda *done: seen.append(done)
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ('name', 'value'), [('num_train', 0), ('num_test', -1), ('num_workers', 0), ('seed', -1)]
)
def test_bad_numbers_are_refused(tmp_path, name, value):
    with pytest.raises(ValueError, match=f'{name} .*{value}'):
        write_motion_videos(tmp_path / 'set', **{**dict(num_train=1, num_test=1), name: value})
    assert list(tmp_path.iterdir()) == []


def test_unknown_classes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one of motion, transfer, got 'ucf'"):
        write_motion_videos(tmp_path / 'set', num_train=1, num_test=1, classes='ucf')
