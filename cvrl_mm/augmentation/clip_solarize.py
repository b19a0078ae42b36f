"""Solarisation with one draw a clip."""

from collections.abc import Sequence

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .host_operations import Step


@TRANSFORMS.register_module()
class ClipSolarize(ClipTransform):
    """Invert what is bright in a clip.

    The paper does not solarise; the released code does so to the second clip with
    probability 0.2: ``prob=(0.0, 0.2)``.

    Args:
        threshold: Share of the range from which on a value is inverted.
        prob: Probability of doing so: a number, or one for each clip.

    Raises:
        ValueError: the threshold or a probability lies outside of [0, 1].
    """

    def __init__(self, threshold: float = 0.5, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)
        if not 0 <= threshold <= 1:
            raise ValueError(
                f'ClipSolarize: threshold is a share of the range in [0, 1], got {threshold}.'
            )
        self.threshold = threshold

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Nothing is left to draw: a clip is solarised or not."""
        return [('solarize', self.threshold)]
