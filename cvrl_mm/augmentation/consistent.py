"""Augmentation with one random draw per clip, frame or video.

Transforms draw :class:`Step` objects, which are applied to one clip on the host
(:func:`apply_steps`) or to a batch on the device (``photometric.apply_on_device``).
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from itertools import takewhile
from types import ModuleType
from typing import NamedTuple

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

# A random state, or the module numpy.random, whose functions use the global random state
Rng = np.random.RandomState | ModuleType
# Keys of data that would have to be transformed together with the images
TIED_TO_IMAGES = ('keypoint', 'gt_bboxes', 'proposals', 'lazy')


class Step(NamedTuple):
    """One operation on one clip and its drawn parameters: ``Step(contrast, (0.7,))``.

    Attributes:
        operation: Takes frames (T, H, W, 3), uint8 RGB, which it changes in place, and ``values``.
        values: Further arguments of the operation.
    """

    operation: Callable[..., None]
    values: tuple = ()


@TRANSFORMS.register_module()
class ConsistentAugment(BaseTransform):
    """Apply transforms with one random draw per clip (Sec. 3.3, Algorithm 1).

    The transforms run on one group of frames at a time. MMAction2's crop, resize and flip draw
    once for all images that they are given, and therefore once per group. ``over='clip'`` is the
    paper's temporally consistent augmentation, ``over='frame'`` its ablation without temporal
    consistency, and ``over='video'`` uses the same draw for both clips.

    Required keys: ``imgs``, ``num_clips``. Modified keys: ``imgs``, an array (num_clips * T,
    H, W, C) in the same order, and ``img_shape``. The transforms additionally receive
    ``clip_index``, except with ``over='video'``. Other keys that a transform writes are discarded
    after its group.

    Args:
        transforms: Transforms or their configs. They must produce images of the same size for
            all groups.
        over: Unit of one random draw: ``'clip'``, ``'frame'`` or ``'video'``.

    Raises:
        ValueError: ``over`` has another value.
    """

    def __init__(
        self, transforms: Sequence[dict | Callable[[dict], dict]], over: str = 'clip'
    ) -> None:
        if over not in ('clip', 'frame', 'video'):
            raise ValueError(f"over must be 'clip', 'frame' or 'video', got {over!r}.")
        self.transforms = [t if callable(t) else TRANSFORMS.build(t) for t in transforms]
        self.over = over
        # The photometric transforms at the end draw together and write into the result
        last = list(takewhile(lambda t: isinstance(t, ClipTransform), reversed(self.transforms)))
        self.last = last[::-1]
        self.first = self.transforms[: len(self.transforms) - len(last)]

    def transform(self, results: dict) -> dict:
        """Augment the images of a sample, group by group.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with augmented images.

        Raises:
            ValueError: The images cannot be split into clips, the sample has boxes or keypoints,
                or the augmented images differ in size.
        """
        self._check(results)
        imgs = results['imgs']
        clip_len = len(imgs) // results['num_clips']
        group_len = {'clip': clip_len, 'frame': 1, 'video': len(imgs)}[self.over]
        out = np.empty(0)  # replaced when the size and type of the first group are known
        for start in range(0, len(imgs), group_len):
            group = {**results, 'imgs': imgs[start : start + group_len]}
            if self.over != 'video':
                group['clip_index'] = start // clip_len
            for transform in self.first:
                group = transform(group)
            steps = [s for t in self.last for s in t.draw(np.random, group.get('clip_index'))]
            if start == 0:
                out = np.empty((len(imgs), *group['imgs'][0].shape), group['imgs'][0].dtype)
            apply_steps(group['imgs'], steps, out[start : start + group_len])
        results['imgs'] = out
        results['img_shape'] = out.shape[1:3]
        return results

    @staticmethod
    def _check(results: dict) -> None:
        tied = [key for key in TIED_TO_IMAGES if results.get(key) is not None]
        if tied:
            raise ValueError(
                f'ConsistentAugment transforms only images, but the sample also has '
                f'{", ".join(tied)}; augment such samples with the transforms of MMAction2.'
            )
        num_imgs, num_clips = len(results['imgs']), results['num_clips']
        if not num_imgs or num_imgs % num_clips:
            raise ValueError(f'{num_imgs} images cannot be split into num_clips={num_clips} clips.')


def apply_steps(
    imgs: np.ndarray | Sequence[np.ndarray], steps: Sequence[Step], out: np.ndarray | None = None
) -> np.ndarray:
    """Apply the steps of one clip in order.

    Args:
        imgs: Frames of one size: a list of (H, W, 3) or an array (T, H, W, 3), uint8 RGB.
        steps: The drawn steps.
        out: Array for the result, (T, H, W, 3) uint8; default: a new one.

    Returns:
        The augmented frames, (T, H, W, 3) uint8; the input is not modified.

    Raises:
        ValueError: The frames differ in size, or there are steps and they are not uint8 RGB.
    """
    if steps and (imgs[0].dtype != np.uint8 or imgs[0].shape[2:] != (3,)):
        raise ValueError(
            f'Photometric transforms need uint8 RGB frames (H, W, 3), got {imgs[0].dtype} of '
            f'{imgs[0].shape}; place them before formatting and normalising.'
        )
    out = np.stack(list(imgs), out=out)
    for operation, values in steps:
        operation(out, *values)
    return out


class ClipTransform(BaseTransform, metaclass=ABCMeta):
    """Base class of photometric transforms with one random draw for all images.

    Required and modified key: ``imgs``, a list of (H, W, 3) or an array (T, H, W, 3), uint8
    RGB; it becomes an array. If each clip has its own probability, the key ``clip_index`` is also
    required, which :class:`ConsistentAugment` writes.

    Subclasses draw their steps in :meth:`draw_steps`. The attribute ``slots`` lists operations
    for the device; the steps must use a subsequence of them. It is empty if the transform
    runs only on the host.

    Args:
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: A probability is outside [0, 1], or a sequence does not have two of them.
    """

    slots: tuple[Callable[..., None], ...] = ()

    def __init__(self, prob: float | Sequence[float]) -> None:
        self.prob: float | list[float] = list(prob) if isinstance(prob, Sequence) else prob
        first, second = self.prob if isinstance(self.prob, list) else (self.prob, self.prob)
        if not (0 <= first <= 1 and 0 <= second <= 1):
            raise ValueError(
                f'{type(self).__name__}: prob must be one number in [0, 1], or two for the two '
                f'clips, got prob={prob}.'
            )

    def transform(self, results: dict) -> dict:
        """Draw once and apply the steps to all images.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with augmented images.
        """
        steps = self.draw(np.random, results.get('clip_index'))
        if steps:
            results['imgs'] = apply_steps(results['imgs'], steps)
        return results

    def draw(self, rng: Rng, clip_index: int | None = None) -> list[Step]:
        """Draw the steps for one clip.

        Args:
            rng: Random source: a ``RandomState``, or ``numpy.random`` itself.
            clip_index: Index of the clip in its video; required if each clip has its own
                probability.

        Returns:
            The steps in order; empty if the transform is not applied.

        Raises:
            ValueError: Each clip has its own probability, and ``clip_index`` is missing.
        """
        prob = self.prob
        if isinstance(prob, list):
            if clip_index not in (0, 1):
                raise ValueError(
                    f'{type(self).__name__} has one probability per clip, {prob}, but got '
                    f"clip_index={clip_index}; use it in ConsistentAugment(over='clip') after a "
                    'sampler of two clips.'
                )
            prob = prob[clip_index]
        return self.draw_steps(rng) if rng.random_sample() < prob else []

    @abstractmethod
    def draw_steps(self, rng: Rng) -> list[Step]:
        """Draw the steps, given that the transform is applied."""

    def _check_range(
        self, name: str, value: Sequence[float], low: float, high: float
    ) -> tuple[float, float]:
        """Return a range within bounds as (low, high), or raise a ValueError."""
        if not isinstance(value, Sequence) or not low <= value[0] <= value[-1] <= high:
            raise ValueError(
                f'{type(self).__name__}: {name} must be a range (low, high) within '
                f'[{low}, {high}], got {value!r}.'
            )
        return float(value[0]), float(value[-1])
