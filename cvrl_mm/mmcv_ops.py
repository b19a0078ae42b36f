"""Operators of ``mmcv.ops`` on top of torchvision.

AVA detection uses four operators of mmcv, and torchvision's wheels contain compiled versions with
equal results: ``RoIAlign``, ``RoIPool``, ``nms`` and ``batched_nms``. The signatures and return
values are those of mmcv 2.1.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.utils import deprecated_api_warning
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

from .torchvision_ops import torchvision_ops

ADVICE = 'Install the compiled "mmcv==2.1.0" instead of mmcv-lite to use it.'


def roi_align(
    input: Tensor,
    rois: Tensor,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    pool_mode: str = 'avg',
    aligned: bool = True,
) -> Tensor:
    """Pool regions of interest from bilinear samples (``mmcv.ops.roi_align``).

    Args:
        input: Feature maps, (N, C, H, W).
        rois: (K, 5): index of the feature map, x1, y1, x2, y2 in pixels of the image.
        output_size: Height and width of the result in bins.
        spatial_scale: Feature cells per pixel.
        sampling_ratio: Samples per bin along each axis; 0 takes one per feature cell.
        pool_mode: ``avg`` or ``max`` over the samples of a bin.
        aligned: Shift the regions by half a feature cell, so that samples are at cell centres.

    Returns:
        (K, C, height, width) in the dtype of ``input``; computed in float32 or wider.

    Raises:
        ValueError: ``pool_mode`` is unknown, or ``rois`` does not have five columns.
    """
    if pool_mode not in ('avg', 'max'):
        raise ValueError(f"pool_mode={pool_mode!r}; it must be 'avg' or 'max'.")
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ValueError(f'rois must be (K, 5), got {tuple(rois.shape)}.')
    feats = input.to(torch.promote_types(input.dtype, torch.float32))
    rois = rois.to(feats.dtype)
    size = _pair(output_size)
    if pool_mode == 'max':
        return _roi_align_max(feats, rois, size, spatial_scale, sampling_ratio, aligned).to(
            input.dtype
        )
    align = torchvision_ops().roi_align
    pooled = align(feats, rois, size, spatial_scale, sampling_ratio, aligned)
    return pooled.to(input.dtype)


def _roi_align_max(
    feats: Tensor,
    rois: Tensor,
    size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Take the maximum over the samples of each bin; each sample is computed as a smaller bin."""
    align = torchvision_ops().roi_align
    height, width = size
    if sampling_ratio > 0:
        samples = rois.new_full((len(rois), 2), sampling_ratio, dtype=torch.long)
    else:  # one sample per feature cell, as many as a bin spans
        spans = (rois[:, [4, 3]] - rois[:, [2, 1]]) * spatial_scale
        if not aligned:
            spans = spans.clamp(min=1)
        samples = (spans / spans.new_tensor(size)).ceil().long().clamp(min=1)
    pooled = feats.new_zeros(len(rois), feats.shape[1], height, width)
    for rows, columns in samples.unique(dim=0).tolist():
        chosen = (samples == samples.new_tensor([rows, columns])).all(1).nonzero()[:, 0]
        fine = align(
            feats, rois[chosen], (height * rows, width * columns), spatial_scale, 1, aligned
        )
        pooled = pooled.index_copy(0, chosen, F.max_pool2d(fine, (rows, columns)))
    return pooled


def roi_pool(
    input: Tensor, rois: Tensor, output_size: int | tuple[int, int], spatial_scale: float = 1.0
) -> Tensor:
    """Pool regions of interest by the maximum over rounded bins (``mmcv.ops.roi_pool``).

    Args:
        input: Feature maps, (N, C, H, W).
        rois: (K, 5): index of the feature map, x1, y1, x2, y2 in pixels of the image.
        output_size: Height and width of the result in bins.
        spatial_scale: Feature cells per pixel.

    Returns:
        (K, C, height, width) in the dtype of ``input``; computed in float32 or wider.
    """
    feats = input.to(torch.promote_types(input.dtype, torch.float32))
    pool = torchvision_ops().roi_pool
    return pool(feats, rois.to(feats.dtype), _pair(output_size), spatial_scale).to(input.dtype)


class RoIAlign(nn.Module):
    """A module for :func:`roi_align`, with its arguments. ``use_torchvision`` has no effect."""

    @deprecated_api_warning(
        dict(out_size='output_size', sample_num='sampling_ratio'), cls_name='RoIAlign'
    )
    def __init__(
        self,
        output_size: int | tuple[int, int],
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        pool_mode: str = 'avg',
        aligned: bool = True,
        use_torchvision: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = _pair(output_size)
        self.spatial_scale = float(spatial_scale)
        self.sampling_ratio = int(sampling_ratio)
        self.pool_mode = pool_mode
        self.aligned = aligned
        self.use_torchvision = use_torchvision

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:
        """Pool ``rois``, (K, 5), from ``input``, (N, C, H, W)."""
        return roi_align(
            input,
            rois,
            self.output_size,
            self.spatial_scale,
            self.sampling_ratio,
            self.pool_mode,
            self.aligned,
        )


class RoIPool(nn.Module):
    """A module for :func:`roi_pool`, with its arguments."""

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float = 1.0) -> None:
        super().__init__()
        self.output_size = _pair(output_size)
        self.spatial_scale = float(spatial_scale)

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:
        """Pool ``rois``, (K, 5), from ``input``, (N, C, H, W)."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)


Boxes = Tensor | np.ndarray


@deprecated_api_warning(dict(iou_thr='iou_threshold'))
def nms(
    boxes: Boxes,
    scores: Boxes,
    iou_threshold: float,
    offset: int = 0,
    score_threshold: float = 0,
    max_num: int = -1,
) -> tuple[Boxes, Boxes]:
    """Suppress boxes that overlap a box with a higher score (``mmcv.ops.nms``).

    Args:
        boxes: (N, 4): x1, y1, x2, y2.
        scores: (N,).
        iou_threshold: Boxes with a larger intersection over union are suppressed.
        offset: 0 or 1; a box is x2 - x1 + offset wide.
        score_threshold: If above 0, boxes with a score of at most this value are removed.
        max_num: If above 0, maximal number of boxes that are kept.

    Returns:
        Kept boxes with their scores, (M, 5), and their indices, (M,), in order of decreasing score;
        numpy arrays if ``boxes`` is one.

    Raises:
        ValueError: Boxes, scores or offset are malformed.
    """
    if isinstance(boxes, np.ndarray):
        dets, keep = nms(
            torch.from_numpy(boxes),
            torch.as_tensor(scores),
            iou_threshold,
            offset,
            score_threshold,
            max_num,
        )
        return dets.numpy(), keep.numpy()
    scores = torch.as_tensor(scores)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ValueError(
            f'boxes must be (N, 4) and scores (N,), got {tuple(boxes.shape)} and '
            f'{tuple(scores.shape)}.'
        )
    if offset not in (0, 1):
        raise ValueError(f'offset={offset}; it must be 0 or 1.')
    candidates = torch.arange(len(boxes), device=boxes.device)
    if score_threshold > 0:
        candidates = candidates[scores > score_threshold]
    # (x2 + 1) - x1 is the width of mmcv's offset, for boxes and for intersections alike.
    corners = boxes.detach()[candidates] + boxes.new_tensor([0, 0, offset, offset])
    keep = torchvision_ops().nms(_wide(corners), _wide(scores.detach()[candidates]), iou_threshold)
    keep = candidates[keep[:max_num] if max_num > 0 else keep]
    return torch.cat([boxes[keep], scores[keep, None]], 1), keep


def _wide(values: Tensor) -> Tensor:
    """Convert to float32 or wider, as torchvision has no suppression for bfloat16."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def batched_nms(
    boxes: Tensor,
    scores: Tensor,
    idxs: Tensor,
    nms_cfg: dict[str, Any] | None,
    class_agnostic: bool = False,
) -> tuple[Tensor, Tensor]:
    """Suppress overlapping boxes within each class (``mmcv.ops.batched_nms``).

    Args:
        boxes: (N, 4): x1, y1, x2, y2.
        scores: (N,).
        idxs: The boxes' classes, (N,).
        nms_cfg: Arguments of ``nms``, and ``type`` (only ``nms``), ``class_agnostic`` and
            ``split_thr``, the number of boxes from which on the classes are processed one after
            the other. With None, no box is suppressed and the boxes are sorted by score.
        class_agnostic: Let boxes of different classes suppress each other.

    Returns:
        Kept boxes with their scores, (M, 5), and their indices, (M,), in order of decreasing score.

    Raises:
        NotImplementedError: ``type`` is another kind of suppression.
    """
    options = dict(nms_cfg or {})
    kind = options.pop('type', 'nms')
    if kind not in ('nms', nms):
        raise NotImplementedError(
            f'nms_cfg asks for type={kind!r}; mmcv-lite with torchvision has only nms. {ADVICE}'
        )
    class_agnostic = options.pop('class_agnostic', class_agnostic)
    split_thr = options.pop('split_thr', 10000)
    if nms_cfg is None or not len(boxes):
        keep = scores.argsort(descending=True, stable=True)
        return torch.cat([boxes[keep], scores[keep, None]], 1), keep
    apart = boxes
    if not class_agnostic:  # shift each class, so that boxes of different classes do not overlap
        apart = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    if len(boxes) < split_thr:
        keep = nms(apart, scores, **options)[1]
    else:
        max_num = options.pop('max_num', -1)
        groups = [(idxs == label).nonzero()[:, 0] for label in idxs.unique()]
        kept = [group[nms(apart[group], scores[group], **options)[1]] for group in groups]
        keep = torch.cat(kept).sort()[0]
        keep = keep[scores[keep].argsort(descending=True, stable=True)]
        keep = keep[:max_num] if max_num > 0 else keep
    return torch.cat([boxes[keep], scores[keep, None]], 1), keep
