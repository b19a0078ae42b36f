import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cvrl_mm.augmentation import (
    ClipAugmentDataPreprocessor,
    ClipColorJitter,
    ClipGaussianBlur,
    ClipGrayscale,
    ClipSolarize,
)
from cvrl_mm.augmentation.consistent import apply_steps

TRANSFORMS = [
    ClipColorJitter(prob=0.8),
    ClipGrayscale(prob=0.2),
    ClipGaussianBlur(),
    ClipSolarize(prob=(0.0, 0.5)),
]
FRAMES = np.kron(  # (4, 24, 28, 3): patches, as in pictures
    np.random.RandomState(0).randint(0, 256, (4, 6, 7, 3)), np.ones((1, 4, 4, 1))
).astype(np.uint8)
UNIT = dict(mean=[0.0] * 3, std=[255.0] * 3, format_shape='NCTHW')


def batch(num_videos: int = 6) -> Tensor:
    """Pairs of clips in the layout of the loader, (N, 2, 3, T, H, W)."""
    frames = torch.from_numpy(FRAMES).expand(num_videos, 2, *FRAMES.shape).contiguous()
    return frames.permute(0, 1, 5, 2, 3, 4)


def test_same_draw_gives_what_the_loader_gives():
    preprocessor = ClipAugmentDataPreprocessor(TRANSFORMS)
    out = preprocessor.augment(batch(30), preprocessor.draw(30, np.random.RandomState(1)))
    rng = np.random.RandomState(1)
    for pair in out:
        for clip_index, clip in enumerate(pair):
            expected = FRAMES
            for transform in TRANSFORMS:
                expected = apply_steps(expected, transform.draw(rng, clip_index))
            difference = clip.permute(1, 2, 3, 0).numpy().astype(int) - expected
            assert np.abs(difference).max() <= 2


@pytest.mark.parametrize('listed', [False, True])
def test_clips_reach_the_first_convolution_in_the_layout_of_the_loader(listed: bool):
    preprocessor = ClipAugmentDataPreprocessor(TRANSFORMS, **UNIT)
    inputs = list(batch()) if listed else batch()
    out = preprocessor.preprocess(inputs, None, training=True)[0].flatten(0, 1)
    assert out.dtype == torch.float32
    assert out.is_contiguous(memory_format=torch.channels_last_3d)
    steps = preprocessor.draw(6, np.random.RandomState(0))
    expected = preprocessor.augment(batch().contiguous(), steps)
    assert torch.equal(preprocessor.augment(inputs, steps), expected)


def test_torchs_seed_repeats_also_in_a_chunk_that_is_computed_again():
    preprocessor, seen = ClipAugmentDataPreprocessor(TRANSFORMS), []
    weight = torch.ones((), requires_grad=True)

    def embed(videos: Tensor) -> Tensor:
        seen.append(preprocessor.preprocess(videos, None, training=True)[0])
        return (seen[-1] * weight).sum()

    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        checkpoint(embed, batch(2), use_reentrant=False).backward()
    assert all(torch.equal(seen[0], other) for other in seen[1:4])
    assert not torch.equal(seen[0], seen[4])


def test_normalises_behind_and_augments_in_training_alone():
    transforms = [dict(type='ClipSolarize', threshold=0.0, prob=(0.0, 1.0))]
    preprocessor = MODELS.build(
        dict(type='ClipAugmentDataPreprocessor', transforms=transforms, **UNIT)
    ).to('cpu')
    data, plain = dict(inputs=batch(2), data_samples=[]), batch(2) / 255
    torch.testing.assert_close(preprocessor(dict(data))['inputs'], plain)
    out = preprocessor(dict(data), training=True)['inputs']
    torch.testing.assert_close(out[:, 0], plain[:, 0])
    torch.testing.assert_close(out[:, 1], 1 - plain[:, 1])


def test_is_exact_under_autocast():
    preprocessor = ClipAugmentDataPreprocessor([ClipGaussianBlur()])
    steps = preprocessor.draw(1, np.random.RandomState(0))
    with torch.autocast('cpu', torch.bfloat16):
        out = preprocessor.augment(batch(1), steps)
    assert torch.equal(out, preprocessor.augment(batch(1), steps))


def test_other_inputs_are_refused():
    with pytest.raises(ValueError, match='uint8'):
        ClipAugmentDataPreprocessor(TRANSFORMS).preprocess(batch() / 255, None, training=True)
