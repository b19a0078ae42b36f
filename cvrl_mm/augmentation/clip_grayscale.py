"""Grayscale with one draw per clip."""

from collections.abc import Sequence

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .step import Step


@TRANSFORMS.register_module()
class ClipGrayscale(ClipTransform):
    """Replace the colours of a clip by their luma (Algorithm 1, Grey).

    Args:
        prob: Probability of applying the transform: one number, or one per clip.
    """

    slots = ('grayscale',)

    def __init__(self, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Return the step; it has no parameters."""
        return [Step('grayscale')]
