"""Colour jitter with one draw per clip."""

from collections.abc import Sequence
from math import inf

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .step import Step


@TRANSFORMS.register_module()
class ClipColorJitter(ClipTransform):
    """Change brightness, contrast, saturation and hue of a clip (Algorithm 1, Jitter).

    The arithmetic, the strengths and the random order follow the released code. Brightness scales
    all values, contrast scales about each channel's mean over the whole clip, saturation and hue
    are changed in HSV, and values are clipped after each operation.

    Args:
        brightness: Range of the factor, (low, high).
        contrast: Range of the factor, (low, high).
        saturation: Range of the factor, (low, high).
        hue: Range of the shift, (low, high), in turns of the colour circle.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: A range is malformed or a probability is outside [0, 1].
    """

    # The changes before contrast and after it need up to two HSV round trips each
    slots = ('hsv', 'hsv', 'contrast', 'hsv', 'hsv')

    def __init__(
        self,
        brightness: Sequence[float] = (0.2, 1.8),
        contrast: Sequence[float] = (0.2, 1.8),
        saturation: Sequence[float] = (0.2, 1.8),
        hue: Sequence[float] = (-0.2, 0.2),
        prob: float | Sequence[float] = 0.8,
    ) -> None:
        super().__init__(prob)
        self.brightness = self._check_range('brightness', brightness, (0, inf))
        self.contrast = self._check_range('contrast', contrast, (0, inf))
        self.saturation = self._check_range('saturation', saturation, (0, inf))
        self.hue = self._check_range('hue', hue, (-0.5, 0.5))

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the parameter of each of the four operations, and their order."""
        names = ('brightness', 'contrast', 'saturation', 'hue')
        steps = [Step(name, (rng.uniform(*getattr(self, name)),)) for name in names]
        return [steps[i] for i in rng.permutation(len(steps))]
