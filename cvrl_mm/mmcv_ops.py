"""``mmcv.ops`` for mmcv-lite: the four operators of AVA detection on top of torchvision.

mmdet does not load without ``mmcv.ops``, for which mmcv-lite has no compiled code. torchvision's
wheels contain compiled operators with the same results as mmcv 2.1: ``roi_align``,
``RoIAlign``, ``nms`` and ``batched_nms``. All other names of ``mmcv.ops`` can be imported and
raise an error when they are used. ``cvrl_mm.detection`` calls :func:`install`.
"""

import sys
from types import ModuleType
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

ADVICE = 'Install the compiled "mmcv==2.1.0" instead of mmcv-lite to use it.'
# Submodules from which mmcv, mmdet 3.1 to 3.3 and mmaction2 1.2 import names
SUBMODULES = (
    *('carafe', 'merge_cells', 'modulated_deform_conv', 'multi_scale_deform_attn'),
    *('nms', 'roi_align', 'roi_pool'),
)


def install() -> None:
    """Put these operators in the place of ``mmcv.ops``."""
    ops = _Operators('mmcv.ops')
    ours = (RoIAlign, batched_nms, nms, roi_align)
    vars(ops).update(__path__=[], __file__=__file__, **{op.__name__: op for op in ours})
    sys.modules['mmcv.ops'] = ops
    sys.modules.update({f'mmcv.ops.{name}': ops for name in SUBMODULES})
    import mmcv.cnn.bricks.transformer

    mmcv.ops = ops
    # mmdet imports this name from there
    mmcv.cnn.bricks.transformer.MultiScaleDeformableAttention = ops.MultiScaleDeformableAttention


class _Operators(ModuleType):
    """A module whose missing names are operators that raise an error on use."""

    def __getattr__(self, name: str) -> type:
        if name.startswith('__'):
            raise AttributeError(f'module {self.__name__!r} has no attribute {name!r}')

        def refuse(*args: object, **kwargs: object) -> None:
            raise NotImplementedError(f'mmcv-lite has no operator {name}. {ADVICE}')

        missing = type(name, (nn.Module,), dict(__init__=refuse))
        setattr(self, name, missing)  # always the same class, so that isinstance works
        return missing


def roi_align(
    input: Tensor,
    rois: Tensor,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    pool_mode: str = 'avg',
    aligned: bool = True,
) -> Tensor:
    """Pool regions of interest by the mean of bilinear samples (``mmcv.ops.roi_align``).

    Args:
        input: Feature maps, (N, C, H, W).
        rois: (K, 5): index of the feature map, x1, y1, x2, y2 in pixels of the image.
        output_size: Height and width of the result in bins.
        spatial_scale: Feature cells per pixel.
        sampling_ratio: Samples per bin along each axis; 0 takes one per feature cell.
        pool_mode: Only ``avg``.
        aligned: Shift the regions by half a feature cell, so that samples are at cell centres.

    Returns:
        (K, C, height, width) in the dtype of ``input``; computed in float32 or wider.

    Raises:
        NotImplementedError: ``pool_mode`` is not ``avg``.
    """
    if pool_mode != 'avg':
        raise NotImplementedError(f'mmcv-lite has no pool_mode={pool_mode!r}. {ADVICE}')
    feats = _wide(input)
    align = torchvision.ops.roi_align
    size = _pair(output_size)
    pooled = align(feats, rois.to(feats.dtype), size, spatial_scale, sampling_ratio, aligned)
    return pooled.to(input.dtype)


class RoIAlign(nn.Module):
    """A module for :func:`roi_align`, with its arguments."""

    def __init__(self, output_size: int | tuple[int, int], *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.output_size = _pair(output_size)
        self.settings = args, kwargs

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:
        """Pool ``rois``, (K, 5), from ``input``, (N, C, H, W)."""
        args, kwargs = self.settings
        return roi_align(input, rois, self.output_size, *args, **kwargs)


def nms(
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    offset: int = 0,
    score_threshold: float = 0,
    max_num: int = -1,
) -> tuple[Tensor, Tensor]:
    """Suppress boxes that overlap a box with a higher score (``mmcv.ops.nms``).

    Args:
        boxes: (N, 4): x1, y1, x2, y2.
        scores: (N,).
        iou_threshold: Boxes with a larger intersection over union are suppressed.
        offset: 0 or 1; a box is x2 - x1 + offset wide.
        score_threshold: If above 0, boxes with a score of at most this value are removed.
        max_num: If above 0, maximal number of boxes that are kept.

    Returns:
        Kept boxes with their scores, (M, 5), and their indices, (M,), in order of decreasing score.
    """
    candidates = torch.arange(len(boxes), device=boxes.device)
    if score_threshold > 0:
        candidates = candidates[scores > score_threshold]
    # (x2 + 1) - x1 is the width of mmcv's offset, for boxes and for intersections alike.
    corners = boxes.detach()[candidates] + boxes.new_tensor([0, 0, offset, offset])
    keep = torchvision.ops.nms(_wide(corners), _wide(scores.detach()[candidates]), iou_threshold)
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
        nms_cfg: Arguments of ``nms``, and ``type`` (only ``nms``) and ``class_agnostic``;
            ``split_thr``, which saves memory, has no effect. With None, no box is suppressed and
            the boxes are sorted by score.
        class_agnostic: Let boxes of different classes suppress each other.

    Returns:
        Kept boxes with their scores, (M, 5), and their indices, (M,), in order of decreasing score.

    Raises:
        NotImplementedError: ``type`` is another kind of suppression.
    """
    options = dict(nms_cfg or {})
    kind = options.pop('type', 'nms')
    if kind not in ('nms', nms):
        raise NotImplementedError(f'mmcv-lite has only nms, and not {kind!r}. {ADVICE}')
    class_agnostic = options.pop('class_agnostic', class_agnostic)
    options.pop('split_thr', None)
    if nms_cfg is None or not len(boxes):
        keep = scores.argsort(descending=True, stable=True)
        return torch.cat([boxes[keep], scores[keep, None]], 1), keep
    apart = boxes
    if not class_agnostic:  # shift each class, so that boxes of different classes do not overlap
        apart = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    keep = nms(apart, scores, **options)[1]
    return torch.cat([boxes[keep], scores[keep, None]], 1), keep
