"""Gaussian blur with one draw a clip."""

from collections.abc import Sequence
from math import inf

from mmaction.registry import TRANSFORMS

from ..datasets.random_source import RandomSource
from .clip_transform import ClipTransform
from .host_operations import Step


@TRANSFORMS.register_module()
class ClipGaussianBlur(ClipTransform):
    """Blur the frames of a clip in space (Algorithm 1, Gaussian_blur).

    As in the released code there is nothing but zeros outside of a frame, which darkens
    its edges. Of the kernel's taps only those are computed that matter in 8 bits at the
    drawn sigma.

    Args:
        sigma: Range of the standard deviation, (low, high), in pixels.
        kernel_size: Taps of the kernel. The released code has a tenth of the frame size,
            made odd: 23 at 224 pixels.
        prob: Probability of doing anything: a number, or one for each clip.

    Raises:
        ValueError: the range, the kernel size or a probability is not one.
    """

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

    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the standard deviation."""
        return [('gaussian_blur', rng.uniform(*self.sigma), self.kernel_size)]
