"""One random draw for a clip, a frame or a video."""

from collections.abc import Callable, Sequence

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from .clip_transform import ClipTransform

# What stands beside the images and would have to move with each group's own draw.
TIED_TO_IMAGES = ('keypoint', 'gt_bboxes', 'proposals', 'lazy')


@TRANSFORMS.register_module()
class ConsistentAugment(BaseTransform):
    """Run transforms so that they draw once for each clip (Section 3.3, Algorithm 1).

    The frames are handed over in groups, and a transform that draws once for all the images
    it is given, as the stock crop, resize and flip do, then draws once for each group.
    ``over='frame'`` is the paper's ablation without consistency in time,
    ``over='video'`` gives both clips the same draw.

    Required keys: ``imgs``, ``num_clips``. Modified keys: ``imgs``, an array (num_clips * T,
    H, W, C) in the same order, and ``img_shape``. Within, ``clip_index`` tells the clip
    (not with ``over='video'``). What else a transform notes in its results belongs to one
    group's draw and ends with it.

    Args:
        transforms: Transforms, or their configs; they must bring all groups to one size.
        over: What is drawn once for: ``'clip'``, ``'frame'`` or ``'video'``.

    Raises:
        ValueError: ``over`` is none of these, or a transform has a probability for each
            clip while both clips share one draw.
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
                    f"{transform} has a probability for each clip, but over='video' draws once "
                    "for both; give prob one number or set over='clip'."
                )
        self.over = over

    def transform(self, results: dict) -> dict | None:
        """Augment group by group.

        Args:
            results: A sample on its way through the pipeline.

        Returns:
            The same dict with augmented images, or None if a transform gave up on it.

        Raises:
            ValueError: the images cannot be split into clips, have things tied to them, or
                come out in several sizes.
        """
        imgs = results['imgs']
        self._check(results)
        group_len, clip_len = self._lengths(len(imgs), results['num_clips'])
        out = np.empty(0)  # until the first group shows size and type
        for start in range(0, len(imgs), group_len):
            group = {**results, 'imgs': imgs[start : start + group_len]}
            if self.over != 'video':
                group['clip_index'] = start // clip_len
            augmented = self._run(group)
            if augmented is None:
                return None
            if start == 0:
                out = np.empty((len(imgs), *augmented[0].shape), augmented[0].dtype)
            _fill(out[start : start + group_len], augmented)
        results['imgs'] = out
        results['img_shape'] = out.shape[1:3]
        return results

    def _lengths(self, num_imgs: int, num_clips: int) -> tuple[int, int]:
        """Return the frames of a group and of a clip."""
        clip_len = num_imgs // num_clips
        return {'clip': clip_len, 'frame': 1, 'video': num_imgs}[self.over], clip_len

    def _run(self, group: dict) -> np.ndarray | Sequence[np.ndarray] | None:
        for transform in self.transforms:
            group = transform(group)
            if group is None:
                return None
        if 'lazy' in group:
            raise ValueError('A lazy transform within ConsistentAugment needs Fuse behind it.')
        return group['imgs']

    def _check(self, results: dict) -> None:
        tied = [key for key in TIED_TO_IMAGES if results.get(key) is not None]
        if tied:
            raise ValueError(
                f'ConsistentAugment moves images alone, but {", ".join(tied)} came with them; '
                'augment such samples with the stock transforms.'
            )
        if not len(results['imgs']) or len(results['imgs']) % results['num_clips']:
            raise ValueError(
                f'{len(results["imgs"])} images cannot be split into num_clips='
                f'{results["num_clips"]} clips; sample and decode before ConsistentAugment.'
            )

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(transforms={self.transforms}, over={self.over!r})'


def _fill(out: np.ndarray, imgs: np.ndarray | Sequence[np.ndarray]) -> None:
    """Copy a group's images, (T, H, W, C) or a list of (H, W, C), to their place."""
    shapes = {img.shape for img in imgs}
    if len(imgs) != len(out) or shapes != {out.shape[1:]}:
        raise ValueError(
            f'ConsistentAugment got {len(imgs)} images of {sorted(shapes)} from a group of '
            f'{len(out)} where the first group has {out.shape[1:]}; bring all to one size '
            'with Resize(keep_ratio=False).'
        )
    if isinstance(imgs, np.ndarray):
        out[:] = imgs
    else:
        np.stack(imgs, out=out)
