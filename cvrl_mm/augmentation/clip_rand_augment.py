"""RandAugment with one draw per clip."""

from collections.abc import Sequence

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from . import pillow_operations
from .clip_transform import ClipTransform, is_number
from .step import Step


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
        ValueError: An argument is out of range.
    """

    def __init__(
        self, num_ops: int = 2, magnitude: float = 9, prob: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__(prob)
        if not isinstance(num_ops, int) or num_ops < 1:
            raise ValueError(
                f'ClipRandAugment: num_ops must be an integer of at least 1, got {num_ops!r}.'
            )
        if not is_number(magnitude) or not 0 <= magnitude <= 10:
            raise ValueError(f'ClipRandAugment: magnitude must be in [0, 10], got {magnitude!r}.')
        self.num_ops = num_ops
        self.magnitude = magnitude

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the operations and the direction of each."""
        names = list(pillow_operations.OPERATIONS)
        steps = []
        for _ in range(self.num_ops):
            name, sign = names[rng.randint(len(names))], 1 if rng.random_sample() < 0.5 else -1
            value = pillow_operations.argument(name, self.magnitude / 10, sign)
            steps.append(Step('pillow', (name, value)))
        return steps
