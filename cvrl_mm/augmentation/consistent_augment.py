"""Augmentation with one random draw per clip, frame or video."""

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from .clip_transform import ClipTransform
from .operations import apply_on_host
from .step import Step

# Keys of data that would have to be transformed together with the images.
TIED_TO_IMAGES = ('keypoint', 'gt_bboxes', 'proposals', 'lazy')


@TRANSFORMS.register_module()
class ConsistentAugment(BaseTransform):
    """Apply transforms with one random draw per clip (Section 3.3, Algorithm 1).

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
        ValueError: ``over`` has another value, or ``over='video'`` is combined with a transform
            that has one probability per clip.
    """

    def __init__(
        self, transforms: Sequence[dict | Callable[[dict], dict]], over: str = 'clip'
    ) -> None:
        if over not in ('clip', 'frame', 'video'):
            raise ValueError(f"over must be 'clip', 'frame' or 'video', got {over!r}.")
        self.transforms = [t if callable(t) else TRANSFORMS.build(t) for t in transforms]
        for transform in self.transforms:
            if over == 'video' and isinstance(transform, ClipTransform) and transform.per_clip:
                raise ValueError(
                    f"{transform} has one probability per clip, but over='video' draws once for "
                    "both clips; set prob to a single number or set over='clip'."
                )
        self.over = over

    def transform(self, results: dict) -> dict | None:
        """Augment the images of a sample, group by group.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with augmented images, or None if a transform returned None.

        Raises:
            ValueError: The images cannot be split into clips, the sample has boxes or keypoints,
                or the augmented images differ in size.
        """
        imgs = results['imgs']
        self._check(results)
        group_len, clip_len = self._lengths(len(imgs), results['num_clips'])
        out = np.empty(0)  # replaced when the size and type of the first group are known
        for start in range(0, len(imgs), group_len):
            group = {**results, 'imgs': imgs[start : start + group_len]}
            if self.over != 'video':
                group['clip_index'] = start // clip_len
            augmented, steps = self._run(group)
            if augmented is None:
                return None
            if start == 0:
                out = np.empty((len(imgs), *augmented[0].shape), augmented[0].dtype)
            _fill(out[start : start + group_len], augmented, steps)
        results['imgs'] = out
        results['img_shape'] = out.shape[1:3]
        return results

    def _lengths(self, num_imgs: int, num_clips: int) -> tuple[int, int]:
        """Return the number of frames per group and per clip."""
        clip_len = num_imgs // num_clips
        return {'clip': clip_len, 'frame': 1, 'video': num_imgs}[self.over], clip_len

    def _run(self, group: dict) -> tuple[np.ndarray | Sequence[np.ndarray] | None, list[Step]]:
        """Return the images before the last photometric transforms, and the steps of these."""
        last = list(takewhile(lambda t: isinstance(t, ClipTransform), reversed(self.transforms)))
        for transform in self.transforms[: len(self.transforms) - len(last)]:
            group = transform(group)
            if group is None:
                return None, []
        if 'lazy' in group:
            raise ValueError('Lazy transforms within ConsistentAugment must be followed by Fuse.')
        index = group.get('clip_index')
        return group['imgs'], [step for t in reversed(last) for step in t.draw(np.random, index)]

    def _check(self, results: dict) -> None:
        tied = [key for key in TIED_TO_IMAGES if results.get(key) is not None]
        if tied:
            raise ValueError(
                f'ConsistentAugment transforms only images, but the sample also has '
                f'{", ".join(tied)}; augment such samples with the transforms of MMAction2.'
            )
        if not len(results['imgs']) or len(results['imgs']) % results['num_clips']:
            raise ValueError(
                f'{len(results["imgs"])} images cannot be split into num_clips='
                f'{results["num_clips"]} clips; sample and decode before ConsistentAugment.'
            )

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(transforms={self.transforms}, over={self.over!r})'


def _fill(out: np.ndarray, imgs: np.ndarray | Sequence[np.ndarray], steps: list[Step]) -> None:
    """Write a group's images, (T, H, W, C) or a list of (H, W, C), into the output array."""
    shapes = {img.shape for img in imgs}
    if len(imgs) != len(out) or shapes != {out.shape[1:]}:
        raise ValueError(
            f'ConsistentAugment got {len(imgs)} images of {sorted(shapes)} from a group of '
            f'{len(out)}, but the first group has {out.shape[1:]}; resize all images to one '
            'size with Resize(keep_ratio=False).'
        )
    if steps:
        apply_on_host(imgs, steps, out)
    elif isinstance(imgs, np.ndarray):
        out[:] = imgs
    else:
        np.stack(imgs, out=out)
