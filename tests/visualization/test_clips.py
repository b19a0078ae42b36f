import cv2
import numpy as np
import pytest
from mmaction.registry import DATASETS

from cvrl_mm.synthetic.motion_scene import SIZE
from cvrl_mm.synthetic.motion_videos import write_motion_videos
from cvrl_mm.visualization.clips import plot_clips, trace_augmentation

SAMPLE = [
    dict(type='VideoFileInit'),
    dict(type='TemporalIntervalSample', clip_len=4, frame_interval=2),
    dict(type='VideoFileDecode'),
]
AUGMENT = dict(
    type='ConsistentAugment',
    transforms=[dict(type='Resize', scale=(16, 16), keep_ratio=False), dict(type='Flip')],
)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp('sets') / 'motion'
    write_motion_videos(root, num_train=1, num_test=1)
    return root


def dataset(root, pipeline):
    return DATASETS.build(
        dict(
            type='VideoListDataset',
            ann_file=str(root / 'train.txt'),
            data_prefix=dict(video=str(root)),
            pipeline=pipeline,
        )
    )


def test_before_and_after_are_the_same_frames(root):
    np.random.seed(0)
    before, after, frame_inds = trace_augmentation(dataset(root, [*SAMPLE, AUGMENT]), 0)
    assert before.shape == (2, 4, SIZE, SIZE, 3)
    assert after.shape == (2, 4, 16, 16, 3)
    assert (np.diff(frame_inds) == 2).all()
    for clip, augmented in zip(before, after, strict=True):
        small = np.stack([cv2.resize(frame, (16, 16)) for frame in clip]).astype(int)
        off = min(np.abs(augmented - s).mean() for s in (small, small[:, :, ::-1]))
        assert off < 1


def test_a_pipeline_without_augmentation_is_refused(root):
    with pytest.raises(ValueError, match='no ConsistentAugment'):
        trace_augmentation(dataset(root, SAMPLE), 0)


def test_frames_are_drawn_in_their_colours(tmp_path):
    red, blue = (np.full((3, 8, 8, 3), colour, np.uint8) for colour in ([250, 0, 0], [0, 0, 250]))
    plot_clips({'red': red, 'blue': blue[:2]}, tmp_path / 'clips.png')
    image = cv2.imread(str(tmp_path / 'clips.png')).astype(int)
    is_red = (image == [0, 0, 250]).all(-1).sum()
    is_blue = (image == [250, 0, 0]).all(-1).sum()
    assert is_red == pytest.approx(1.5 * is_blue, rel=0.1)
    assert is_blue > 0
