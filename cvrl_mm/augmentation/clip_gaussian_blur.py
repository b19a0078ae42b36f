"""Gaussian blur with one draw per clip."""

from collections.abc import Sequence
from math import inf

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .host_operations import gaussian_kernel
from .step import Step


@TRANSFORMS.register_module()
class ClipGaussianBlur(ClipTransform):
    """Blur the frames of a clip in space (Algorithm 1, Gaussian_blur).

    As in the released code, frames are padded with zeros, which darkens their edges. Taps that
    have no effect in 8 bits at the drawn sigma are omitted.

    Args:
        sigma: Range of the standard deviation, (low, high), in pixels.
        kernel_size: Number of taps. The released code uses a tenth of the frame size, rounded to
            an odd number: 23 for 224 pixels.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: The range is malformed, the kernel size is not an odd positive number, or a
            probability is outside [0, 1].
    """

    slots = ('gaussian_blur',)

    def __init__(
        self,
        sigma: Sequence[float] = (0.1, 2.0),
        kernel_size: int = 23,
        prob: float | Sequence[float] = 1.0,
    ) -> None:
        super().__init__(prob)
        self.sigma = self._check_range('sigma', sigma, (0, inf))
        if not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(
                'ClipGaussianBlur: kernel_size counts taps and must be odd and positive, '
                f'got {kernel_size!r}.'
            )
        self.kernel_size = kernel_size

    @property
    def num_taps(self) -> int:
        """Number of taps at the largest sigma."""
        return len(gaussian_kernel(self.sigma[1], self.kernel_size))

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the standard deviation."""
        return [Step('gaussian_blur', (rng.uniform(*self.sigma), self.kernel_size))]
