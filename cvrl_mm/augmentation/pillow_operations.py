"""The operations of RandAugment for uint8 clips, implemented with Pillow."""

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

GREY = (128, 128, 128)  # fills areas outside of the original frame
MAX_SHARE = 150 / 331  # maximal translation as a share of the side

Operation = Callable[[Image.Image, float], Image.Image]
# Maps the strength in [0, 1] and the direction, -1 or 1, to the argument of an operation
Argument = Callable[[float, int], float]


def apply(frames: np.ndarray, name: str, value: float) -> None:
    """Apply one operation to a clip in place.

    Operations that depend on the histogram or the mean of an image use those of the whole clip,
    so that all frames change in the same way.

    Args:
        frames: (T, H, W, 3) uint8 RGB.
        name: Name of the operation, a key of ``OPERATIONS``.
        value: Argument of the operation, from :func:`argument`.
    """
    operation, _ = OPERATIONS[name]
    if name in WITHIN_A_FRAME:
        for frame in frames:
            frame[:] = operation(Image.fromarray(frame), value)
    else:
        tall = frames.reshape(-1, *frames.shape[2:])  # (T * H, W, 3)
        tall[:] = operation(Image.fromarray(tall), value)


def argument(name: str, level: float, sign: int) -> float:
    """Return the argument of an operation for a strength.

    Args:
        name: Name of the operation, a key of ``OPERATIONS``.
        level: Strength in [0, 1].
        sign: Direction, -1 or 1; has no effect on operations with only one direction.
    """
    return OPERATIONS[name][1](level, sign)


def _enhance(enhancer: type) -> Operation:
    return lambda image, factor: enhancer(image).enhance(factor)


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, fillcolor=GREY)


def _affine(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=GREY)


def _nothing(level: float, sign: int) -> float:
    return 0.0


def _factor(level: float, sign: int) -> float:
    return 1 + 0.9 * sign * level


def _shear(level: float, sign: int) -> float:
    return 0.3 * sign * level


def _solarize(image: Image.Image, threshold: float) -> Image.Image:
    return ImageOps.solarize(image, math.ceil(threshold))  # Pillow needs an integer


def _share(level: float, sign: int) -> float:
    return MAX_SHARE * sign * level


# The list is that of RandAugment (Cubuk et al., NeurIPS 2020, Section 3), the ranges are those
# of AutoAugment (Cubuk et al., CVPR 2019, Table 6).
OPERATIONS: dict[str, tuple[Operation, Argument]] = {
    'identity': (lambda image, _: image, _nothing),
    'auto_contrast': (lambda image, _: ImageOps.autocontrast(image), _nothing),
    'equalize': (lambda image, _: ImageOps.equalize(image), _nothing),
    'rotate': (_rotate, lambda level, sign: 30 * sign * level),
    'solarize': (_solarize, lambda level, sign: 256 * (1 - level)),
    'color': (_enhance(ImageEnhance.Color), _factor),
    'posterize': (
        lambda image, bits: ImageOps.posterize(image, int(bits)),
        lambda level, sign: 8 - round(4 * level),
    ),
    'contrast': (_enhance(ImageEnhance.Contrast), _factor),
    'brightness': (_enhance(ImageEnhance.Brightness), _factor),
    'sharpness': (_enhance(ImageEnhance.Sharpness), _factor),
    'shear_x': (lambda image, shear: _affine(image, (1, shear, 0, 0, 1, 0)), _shear),
    'shear_y': (lambda image, shear: _affine(image, (1, 0, 0, shear, 1, 0)), _shear),
    'translate_x': (
        lambda image, share: _affine(image, (1, 0, share * image.width, 0, 1, 0)),
        _share,
    ),
    'translate_y': (
        lambda image, share: _affine(image, (1, 0, 0, 0, 1, share * image.height)),
        _share,
    ),
}
# Operations that depend on the position within a frame. The others process each pixel
# independently, given the statistics of the clip.
WITHIN_A_FRAME = ('rotate', 'sharpness', 'shear_x', 'shear_y', 'translate_x', 'translate_y')
