import random

import numpy as np
import pytest

from cvrl_mm.augmentation import (
    ClipColorJitter,
    ClipGaussianBlur,
    ClipGrayscale,
    ClipSolarize,
    ConsistentAugment,
)

FRAME = np.random.RandomState(0).randint(0, 256, (20, 26, 3)).astype(np.uint8)
SPATIAL = [
    dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
    dict(type='Resize', scale=(16, 16), keep_ratio=False),
    dict(type='Flip', flip_ratio=0.5),
]
PHOTOMETRIC = [
    dict(type='ClipColorJitter', prob=1.0),
    dict(type='ClipGrayscale', prob=0.2),
    dict(type='ClipGaussianBlur'),
    dict(type='ClipSolarize', prob=(0.0, 0.2)),
]


def sample(frames=None):
    """A decoded video of two clips of four frames, all alike unless given."""
    imgs = [FRAME.copy() for _ in range(8)] if frames is None else frames
    return dict(imgs=imgs, num_clips=2, clip_len=4, img_shape=FRAME.shape[:2], modality='RGB')


def same(a, b):
    return np.array_equal(a, b)


def test_frames_of_a_clip_agree_and_two_clips_differ():
    np.random.seed(0)
    out = ConsistentAugment(SPATIAL + PHOTOMETRIC)(sample())
    assert out['imgs'].shape == (8, 16, 16, 3) and out['imgs'].dtype == np.uint8
    assert out['img_shape'] == (16, 16)
    first, second = out['imgs'][:4], out['imgs'][4:]
    assert all(same(img, first[0]) for img in first)
    assert all(same(img, second[0]) for img in second)
    assert not same(first[0], second[0])


def test_over_frame_draws_anew_for_each_frame():
    np.random.seed(0)
    imgs = ConsistentAugment(SPATIAL + PHOTOMETRIC, over='frame')(sample())['imgs']
    assert len({img.tobytes() for img in imgs}) == 8


def test_over_video_draws_once():
    np.random.seed(0)
    imgs = ConsistentAugment(SPATIAL + PHOTOMETRIC[:3], over='video')(sample())['imgs']
    assert len({img.tobytes() for img in imgs}) == 1
    assert not same(imgs[0], FRAME)


@pytest.mark.parametrize(
    'names', [PHOTOMETRIC, PHOTOMETRIC[:1] + SPATIAL + PHOTOMETRIC[1:], SPATIAL]
)
def test_the_result_is_that_of_one_transform_after_another(names: list[dict]):
    rng = np.random.RandomState(1)
    frames = list(rng.randint(0, 256, (8, 20, 26, 3)).astype(np.uint8))
    augment = ConsistentAugment(names)
    np.random.seed(0)
    random.seed(0)
    out = augment(sample([f.copy() for f in frames]))['imgs']
    np.random.seed(0)
    random.seed(0)
    for clip in range(2):
        group = sample([f.copy() for f in frames[4 * clip : 4 * clip + 4]]) | dict(clip_index=clip)
        for transform in augment.transforms:
            group = transform(group)
        assert same(out[4 * clip : 4 * clip + 4], group['imgs'])


def test_a_seed_repeats():
    import random  # the stock crop places itself by this one

    augment, drawn = ConsistentAugment(SPATIAL + PHOTOMETRIC), []
    for seed in (0, 0, 1):
        random.seed(seed)
        np.random.seed(seed)
        drawn.append(augment(sample())['imgs'])
    assert same(drawn[0], drawn[1])
    assert not same(drawn[0], drawn[2])


@pytest.mark.parametrize('over, clips', [('clip', [0, 1]), ('frame', [0] * 4 + [1] * 4)])
def test_inner_transforms_see_their_clip(over, clips):
    seen = []

    def look(results):
        seen.append((results['clip_index'], len(results['imgs'])))
        return {**results, 'crop_bbox': 'of this group'}

    out = ConsistentAugment([look], over=over)(sample())
    assert [index for index, _ in seen] == clips
    assert {count for _, count in seen} == {8 // len(clips)}
    assert 'clip_index' not in out and 'crop_bbox' not in out


def test_order_and_content_of_frames_stay():
    frames = [np.full((6, 6, 3), i, np.uint8) for i in range(8)]
    out = ConsistentAugment([dict(type='Flip', flip_ratio=0.5)])(sample(frames))
    np.testing.assert_array_equal(out['imgs'][:, 0, 0, 0], np.arange(8))


def test_probability_for_each_clip():
    augment = ConsistentAugment([dict(type='ClipSolarize', threshold=0.0, prob=(0.0, 1.0))])
    imgs = augment(sample())['imgs']
    assert all(same(img, FRAME) for img in imgs[:4])
    assert all(same(img, 255 - FRAME) for img in imgs[4:])


def test_steps_run_in_their_order():
    transforms = [
        ClipColorJitter(prob=1.0),
        ClipGrayscale(prob=1.0),
        ClipGaussianBlur(),
        ClipSolarize(prob=1.0),
    ]
    np.random.seed(1)
    imgs = ConsistentAugment(transforms)(sample())['imgs']
    np.random.seed(1)
    for clip in range(2):
        expected = {'imgs': [FRAME]}
        for transform in transforms:
            expected = transform(expected)
        np.testing.assert_array_equal(imgs[4 * clip], expected['imgs'][0])


def test_lazy_transforms_work_up_to_their_fuse():
    lazy = [{**cfg, 'lazy': True} for cfg in SPATIAL]
    imgs = ConsistentAugment([*lazy, dict(type='Fuse')])(sample())['imgs']
    assert imgs.shape == (8, 16, 16, 3)
    with pytest.raises(ValueError, match='followed by Fuse'):
        ConsistentAugment(lazy)(sample())


def test_a_transform_may_give_a_sample_up():
    assert ConsistentAugment([lambda results: None])(sample()) is None


def test_groups_of_several_sizes_are_refused():
    np.random.seed(0)
    with pytest.raises(ValueError, match='resize all images to one'):
        ConsistentAugment(SPATIAL[:1])(sample())


def test_what_is_tied_to_images_is_refused():
    with pytest.raises(ValueError, match='gt_bboxes'):
        ConsistentAugment(SPATIAL)({**sample(), 'gt_bboxes': np.zeros((1, 4))})


def test_frames_that_are_no_clips_are_refused():
    with pytest.raises(ValueError, match='7 images cannot be split into num_clips=2'):
        ConsistentAugment(SPATIAL)(sample([FRAME] * 7))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="got 'clips'"):
        ConsistentAugment(SPATIAL, over='clips')
    with pytest.raises(ValueError, match="over='video' draws once"):
        ConsistentAugment([dict(type='ClipSolarize', prob=(0.0, 0.2))], over='video')
