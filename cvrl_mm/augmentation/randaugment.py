"""RandAugment with one draw per clip, with the operations of Pillow."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from mmaction.registry import TRANSFORMS
from PIL import Image, ImageEnhance, ImageOps

from .consistent import ClipTransform, Rng, Step

GREY = (128, 128, 128)  # fills areas outside of the original frame
MAX_SHARE = 150 / 331  # maximal translation as a share of the side


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=GREY)


# Each takes an image and the strength s in [-1, 1]. The list is RandAugment's (Cubuk et al.,
# NeurIPS 2020, Sec. 3), the ranges are AutoAugment's (Cubuk et al., CVPR 2019, Table 6).
OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    'identity': lambda image, s: image,
    'auto_contrast': lambda image, s: ImageOps.autocontrast(image),
    'equalize': lambda image, s: ImageOps.equalize(image),
    'rotate': lambda image, s: image.rotate(30 * s, fillcolor=GREY),
    'solarize': lambda image, s: ImageOps.solarize(image, math.ceil(256 * (1 - abs(s)))),
    'color': lambda image, s: ImageEnhance.Color(image).enhance(1 + 0.9 * s),
    'posterize': lambda image, s: ImageOps.posterize(image, 8 - round(4 * abs(s))),
    'contrast': lambda image, s: ImageEnhance.Contrast(image).enhance(1 + 0.9 * s),
    'brightness': lambda image, s: ImageEnhance.Brightness(image).enhance(1 + 0.9 * s),
    'sharpness': lambda image, s: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * s),
    'shear_x': lambda image, s: _affine(image, 1, 0.3 * s, 0, 0, 1, 0),
    'shear_y': lambda image, s: _affine(image, 1, 0, 0, 0.3 * s, 1, 0),
    'translate_x': lambda image, s: _affine(image, 1, 0, MAX_SHARE * s * image.width, 0, 1, 0),
    'translate_y': lambda image, s: _affine(image, 1, 0, 0, 0, 1, MAX_SHARE * s * image.height),
}
# Operations that depend on the position within a frame. The others process each pixel
# independently, given the statistics of the clip.
WITHIN_A_FRAME = ('rotate', 'sharpness', 'shear_x', 'shear_y', 'translate_x', 'translate_y')


def apply_operation(frames: np.ndarray, name: str, strength: float) -> None:
    """Apply one operation to a clip in place.

    Operations that depend on the histogram or the mean of an image use the whole clip's,
    so that all frames change in the same way.

    Args:
        frames: (T, H, W, 3) uint8 RGB.
        name: Name of the operation, a key of ``OPERATIONS``.
        strength: Strength and direction, -1 to 1.
    """
    tall = frames.reshape(-1, *frames.shape[2:])  # (T * H, W, 3)
    for image in frames if name in WITHIN_A_FRAME else [tall]:
        image[:] = OPERATIONS[name](Image.fromarray(image), strength)


@TRANSFORMS.register_module()
class ClipRandAugment(ClipTransform):
    """Apply RandAugment to a clip (Appendix B.2, Table 11).

    Each operation is drawn uniformly from the 14 operations of RandAugment. All frames get the
    same operations in the same direction. The paper does not state the magnitude; the authors of
    RandAugment report 9 of 10 for ResNet-50 with two operations.

    Args:
        num_ops: Number of operations, drawn with replacement and applied in sequence.
        magnitude: Strength of the operations, 0 to 10.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: ``magnitude`` is out of range.
    """

    def __init__(
        self, num_ops: int = 2, magnitude: float = 9, prob: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__(prob)
        if not 0 <= magnitude <= 10:
            raise ValueError(f'ClipRandAugment: magnitude must be in [0, 10], got {magnitude!r}.')
        self.num_ops, self.magnitude = num_ops, magnitude

    def draw_steps(self, rng: Rng) -> list[Step]:
        """Draw the operations and the direction of each."""
        names, level = list(OPERATIONS), self.magnitude / 10
        steps = []
        for _ in range(self.num_ops):
            name, sign = names[rng.randint(len(names))], 1 if rng.random_sample() < 0.5 else -1
            steps.append(Step(apply_operation, (name, sign * level)))
        return steps
