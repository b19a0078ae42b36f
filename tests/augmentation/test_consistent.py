import random

import numpy as np
import pytest

from cvrl_mm.augmentation import (
    ClipAugmentDataPreprocessor,
    ClipColorJitter,
    ClipGaussianBlur,
    ClipGrayscale,
    ClipRandAugment,
    ClipSolarize,
    ConsistentAugment,
    TFRandomResizedCrop,
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


def sample(frames: list | None = None) -> dict:
    """A decoded video of two clips of four frames, all alike unless given."""
    imgs = [FRAME.copy() for _ in range(8)] if frames is None else frames
    return dict(imgs=imgs, num_clips=2, clip_len=4, img_shape=FRAME.shape[:2], modality='RGB')


@pytest.mark.parametrize(('over', 'different'), [('clip', 2), ('frame', 8), ('video', 1)])
def test_draws_once_per_clip_frame_or_video(over: str, different: int):
    np.random.seed(0)
    transforms = SPATIAL + PHOTOMETRIC[: 3 if over == 'video' else 4]
    out = ConsistentAugment(transforms, over=over)(sample())
    imgs = out['imgs']
    assert imgs.shape == (8, 16, 16, 3) and imgs.dtype == np.uint8
    assert out['img_shape'] == (16, 16)
    assert len({img.tobytes() for img in imgs}) == different
    for clip in (imgs[:4], imgs[4:]):
        assert (len({img.tobytes() for img in clip}) == 1) == (over != 'frame')


@pytest.mark.parametrize(
    'configs', [PHOTOMETRIC, PHOTOMETRIC[:1] + SPATIAL + PHOTOMETRIC[1:], SPATIAL]
)
def test_the_result_is_that_of_one_transform_after_another(configs: list[dict]):
    frames = list(np.random.RandomState(1).randint(0, 256, (8, 20, 26, 3)).astype(np.uint8))
    augment = ConsistentAugment(configs)
    np.random.seed(0)
    random.seed(0)  # the stock crop places itself by this one
    out = augment(sample([f.copy() for f in frames]))['imgs']
    np.random.seed(0)
    random.seed(0)
    for clip in range(2):
        group = sample([f.copy() for f in frames[4 * clip : 4 * clip + 4]]) | dict(clip_index=clip)
        for transform in augment.transforms:
            group = transform(group)
        np.testing.assert_array_equal(out[4 * clip : 4 * clip + 4], group['imgs'])


def test_inner_transforms_see_their_clip():
    seen = []

    def look(results: dict) -> dict:
        seen.append((results['clip_index'], len(results['imgs'])))
        return {**results, 'crop_bbox': 'of this group'}

    out = ConsistentAugment([look])(sample())
    assert seen == [(0, 4), (1, 4)]
    assert 'clip_index' not in out and 'crop_bbox' not in out


def test_probability_of_each_clip():
    augment = ConsistentAugment([dict(type='ClipSolarize', threshold=0.0, prob=(0.0, 1.0))])
    imgs = augment(sample())['imgs']
    np.testing.assert_array_equal(imgs, [FRAME] * 4 + [255 - FRAME] * 4)
    transform, rng = ClipSolarize(prob=(0.1, 0.6)), np.random.RandomState(0)
    for clip_index, prob in enumerate(transform.prob):
        drawn = [bool(transform.draw(rng, clip_index)) for _ in range(4000)]
        assert abs(np.mean(drawn) - prob) < 0.03


@pytest.mark.parametrize(
    ('results', 'seen'),
    [
        (sample() | dict(gt_bboxes=np.zeros((1, 4))), 'gt_bboxes'),
        (sample([FRAME] * 7), 'num_clips=2'),
        (sample([FRAME / 255] * 8), 'float64'),
        (sample([FRAME[..., 0]] * 8), r'\(20, 26\)'),
        (sample([FRAME] * 4 + [FRAME[:9]] * 4), 'shape'),
    ],
    ids=['boxes', 'no clips', 'float', 'grey', 'sizes'],
)
def test_other_samples_are_refused(results: dict, seen: str):
    with pytest.raises(ValueError, match=seen):
        ConsistentAugment([ClipGrayscale(prob=1.0)])(results)


@pytest.mark.parametrize(
    ('transform', 'wrong'),
    [
        (ConsistentAugment, dict(over='clips', transforms=[])),
        (ClipGrayscale, dict(prob=[0.5, 2])),
        (ClipColorJitter, dict(brightness=0.8)),
        (ClipColorJitter, dict(hue=(-0.6, 0.2))),
        (ClipGaussianBlur, dict(sigma=(-1.0, 2.0))),
        (ClipGaussianBlur, dict(kernel_size=22)),
        (ClipSolarize, dict(threshold=128)),
        (ClipRandAugment, dict(magnitude=11)),
        (TFRandomResizedCrop, dict(area_range=(0.3, 1.5))),
        (ClipAugmentDataPreprocessor, dict(transforms=[dict(type='Flip')])),
    ],
)
def test_bad_arguments_are_named(transform: type, wrong: dict):
    name, value = next(iter(wrong.items()))
    seen = value[0]['type'] if name == 'transforms' else name
    with pytest.raises(ValueError, match=seen):
        transform(**wrong)


def test_a_probability_per_clip_needs_the_clip():
    with pytest.raises(ValueError, match='clip_index'):
        ConsistentAugment([ClipSolarize(prob=(0.0, 0.2))], over='video')(sample())
