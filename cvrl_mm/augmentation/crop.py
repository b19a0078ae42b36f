"""The random crop of the released code."""

import math

import numpy as np
from mmaction.datasets.transforms import RandomResizedCrop
from mmaction.registry import TRANSFORMS

from .consistent import Rng

MAX_ATTEMPTS = 100  # as in the released code


@TRANSFORMS.register_module()
class TFRandomResizedCrop(RandomResizedCrop):
    """Crop with the distribution of TensorFlow's ``sample_distorted_bounding_box``.

    The aspect ratio (width / height) is uniform in its range. The height is uniform among the
    heights that keep the area within its range and the crop within the frame. MMAction2's
    ``RandomResizedCrop`` draws the area uniformly and the aspect ratio log-uniformly instead,
    which gives larger crops: at 455x256 the mean area is 0.53 of the frame against 0.48.

    Args:
        area_range: Range of the crop's share of the frame's area.
        aspect_ratio_range: Range of width / height.

    Raises:
        ValueError: A range is malformed.
    """

    def __init__(
        self,
        area_range: tuple[float, float] = (0.3, 1.0),
        aspect_ratio_range: tuple[float, float] = (0.5, 2.0),
    ) -> None:
        super().__init__(area_range, aspect_ratio_range)
        if not 0 < area_range[0] <= area_range[1] <= 1:
            raise ValueError(f'area_range: 0 < low <= high <= 1, got {area_range}.')
        if not 0 < aspect_ratio_range[0] <= aspect_ratio_range[1]:
            raise ValueError(f'aspect_ratio_range: 0 < low <= high, got {aspect_ratio_range}.')

    @staticmethod
    def get_crop_bbox(
        img_shape: tuple[int, int],
        area_range: tuple[float, float],
        aspect_ratio_range: tuple[float, float],
        max_attempts: int = MAX_ATTEMPTS,
        rng: Rng = np.random,
    ) -> tuple[int, int, int, int]:
        """Draw a crop.

        Args:
            img_shape: Height and width of the frame.
            area_range: As in the constructor.
            aspect_ratio_range: As in the constructor.
            max_attempts: Number of aspect ratios to try before the whole frame is used.
            rng: Random source.

        Returns:
            Left, top, right and bottom edge, in pixels.
        """
        frame_height, frame_width = img_shape
        smallest, largest = (share * frame_height * frame_width for share in area_range)
        for _ in range(max_attempts):
            aspect = rng.uniform(*aspect_ratio_range)
            lowest = round(math.sqrt(smallest / aspect))
            highest = min(
                round(math.sqrt(largest / aspect)),
                math.ceil((frame_width + 0.5) / aspect) - 1,  # the width is rounded as well
                frame_height,
            )
            height = rng.randint(lowest, highest + 1) if lowest < highest else highest
            # Rounding can move the area out of its range by one row
            for candidate in (height, height + 1, height - 1):
                width = round(candidate * aspect)
                fits = 0 < candidate <= frame_height and 0 < width <= frame_width
                if fits and smallest <= candidate * width <= largest:
                    top = rng.randint(max(frame_height - candidate, 1))
                    left = rng.randint(max(frame_width - width, 1))
                    return left, top, left + width, top + candidate
        return 0, 0, frame_width, frame_height
