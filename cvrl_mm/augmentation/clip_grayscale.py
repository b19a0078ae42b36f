"""Greyscale with one draw a clip."""

from collections.abc import Sequence

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .host_operations import Step


@TRANSFORMS.register_module()
class ClipGrayscale(ClipTransform):
    """Replace the colours of a clip by their luma (Algorithm 1, Grey).

    Args:
        prob: Probability of doing so: a number, or one for each clip.
    """

    def __init__(self, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Nothing is left to draw: a clip is grey or not."""
        return [('grayscale',)]
