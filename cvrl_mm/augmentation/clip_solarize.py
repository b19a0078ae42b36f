"""Solarization with one draw per clip."""

from collections.abc import Sequence

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .step import Step


@TRANSFORMS.register_module()
class ClipSolarize(ClipTransform):
    """Invert the bright values of a clip.

    The paper does not use it. The released code solarizes the second clip with probability 0.2:
    ``prob=(0.0, 0.2)``.

    Args:
        threshold: Values above this share of the range are inverted.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: The threshold or a probability is outside [0, 1].
    """

    slots = ('solarize',)

    def __init__(self, threshold: float = 0.5, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)
        if not 0 <= threshold <= 1:
            raise ValueError(
                f'ClipSolarize: threshold is a share of the range in [0, 1], got {threshold}.'
            )
        self.threshold = threshold

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Return the step; its threshold is fixed."""
        return [Step('solarize', (self.threshold,))]
