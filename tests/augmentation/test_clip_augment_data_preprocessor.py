import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from torch.utils.checkpoint import checkpoint

from cvrl_mm.augmentation import (
    ClipAugmentDataPreprocessor,
    ClipColorJitter,
    ClipGaussianBlur,
    ClipGrayscale,
    ClipSolarize,
)
from cvrl_mm.augmentation.operations import apply_on_host as apply_steps
from cvrl_mm.augmentation.step import Step

TRANSFORMS = [
    ClipColorJitter(prob=0.8),
    ClipGrayscale(prob=0.2),
    ClipGaussianBlur(),
    ClipSolarize(prob=(0.0, 0.5)),
]
FRAMES = np.kron(  # (4, 24, 28, 3): patches, as in pictures
    np.random.RandomState(0).randint(0, 256, (4, 6, 7, 3)), np.ones((1, 4, 4, 1))
).astype(np.uint8)


def batch(num_videos=6):
    clip = torch.from_numpy(FRAMES).permute(3, 0, 1, 2)
    return [torch.stack([clip, clip]) for _ in range(num_videos)]


def test_same_draw_gives_what_the_loader_gives():
    preprocessor = ClipAugmentDataPreprocessor(TRANSFORMS)
    inputs = batch(30)
    out = preprocessor.augment(inputs, preprocessor.draw(30, np.random.RandomState(1)))
    rng = np.random.RandomState(1)
    for pair in out:
        for clip_index, clip in enumerate(pair):
            expected = FRAMES
            for transform in TRANSFORMS:
                steps = transform.draw(rng, clip_index)
                expected = apply_steps(expected, steps) if steps else expected
            difference = clip.permute(1, 2, 3, 0).numpy().astype(int) - expected
            assert np.abs(difference).max() <= 2


def test_frames_of_a_clip_agree_and_clips_differ():
    still = torch.from_numpy(FRAMES[:1]).permute(3, 0, 1, 2).expand(3, 4, 24, 28)
    inputs = [torch.stack([still, still]) for _ in range(4)]
    torch.manual_seed(0)
    out = ClipAugmentDataPreprocessor(TRANSFORMS).preprocess(inputs, None, training=True)[0]
    assert (out == out[:, :, :, :1]).all()
    assert len({clip.numpy().tobytes() for clip in out.flatten(0, 1)}) == 8


def test_torchs_seed_repeats():
    preprocessor, drawn = ClipAugmentDataPreprocessor(TRANSFORMS), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(preprocessor.preprocess(batch(), None, training=True)[0])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_chunk_that_is_computed_again_is_augmented_alike():
    preprocessor, seen = ClipAugmentDataPreprocessor(TRANSFORMS), []
    weight = torch.ones((), requires_grad=True)

    def embed(videos):
        seen.append(preprocessor.preprocess(list(videos), None, training=True)[0])
        return (seen[-1] * weight).sum()

    checkpoint(embed, torch.stack(batch(2)), use_reentrant=False).backward()
    assert len(seen) == 2
    assert torch.equal(*seen)


def test_normalises_behind_and_augments_in_training_alone():
    settings = dict(mean=[0.0] * 3, std=[255.0] * 3, format_shape='NCTHW')
    cfg = dict(
        type='ClipAugmentDataPreprocessor',
        transforms=[dict(type='ClipSolarize', threshold=0.0, prob=(0.0, 1.0))],
    )
    preprocessor = MODELS.build({**cfg, **settings})
    data = dict(inputs=batch(2), data_samples=[])
    plain = torch.stack(batch(2)) / 255
    torch.testing.assert_close(preprocessor(dict(data))['inputs'], plain)
    out = preprocessor(dict(data), training=True)['inputs']
    torch.testing.assert_close(out[:, 0], plain[:, 0])
    torch.testing.assert_close(out[:, 1], 1 - plain[:, 1])


def test_is_exact_under_autocast():
    preprocessor = ClipAugmentDataPreprocessor([ClipGaussianBlur()])
    steps = [[Step('gaussian_blur', (1.5, 23))]] * 2
    with torch.autocast('cpu', torch.bfloat16):
        out = preprocessor.augment(batch(1), steps)
    assert torch.equal(out[0], preprocessor.augment(batch(1), steps)[0])


def test_strided_clips_of_the_loader_are_taken():
    inputs = [x.permute(0, 2, 3, 4, 1).contiguous().permute(0, 4, 1, 2, 3) for x in batch(2)]
    preprocessor = ClipAugmentDataPreprocessor(TRANSFORMS)
    steps = preprocessor.draw(2, np.random.RandomState(0))
    assert not inputs[0].is_contiguous()
    expected = preprocessor.augment(batch(2), steps)
    assert torch.equal(preprocessor.augment(inputs, steps), expected)


@pytest.mark.parametrize('name', ['Flip', 'ClipRandAugment'])
def test_other_transforms_are_refused(name):
    with pytest.raises(ValueError, match=rf'runs only Clip… transforms.*{name}\('):
        ClipAugmentDataPreprocessor([dict(type=name)])


@pytest.mark.parametrize(
    'inputs',
    [
        [torch.zeros(2, 3, 4, 8, 8)],
        [torch.zeros(1, 3, 4, 8, 8, dtype=torch.uint8)],
        [torch.zeros(2, 3, 4, 8, s, dtype=torch.uint8) for s in (8, 9)],
    ],
    ids=['float', 'one clip', 'two sizes'],
)
def test_other_inputs_are_refused(inputs):
    with pytest.raises(ValueError, match='needs uint8 RGB clips of one size'):
        ClipAugmentDataPreprocessor(TRANSFORMS).preprocess(inputs, None, training=True)
