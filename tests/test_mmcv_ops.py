"""The operators for mmcv-lite against results of mmcv 2.1.0's compiled ones."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm import mmcv_ops

pytest.importorskip('torchvision')
GOLDEN = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parent / 'data' / 'mmcv_ops.npz').items()
}
FEAT, ROIS = GOLDEN['feat'], GOLDEN['rois']
BOXES, SCORES, IDS = GOLDEN['boxes'], GOLDEN['scores'], GOLDEN['ids']
ALIGN = dict(
    ava=dict(output_size=8),
    fixed=dict(output_size=(7, 7), sampling_ratio=2),
    legacy=dict(output_size=7, aligned=False),
)


@pytest.mark.parametrize('name', ALIGN)
def test_roi_align_and_its_gradient_equal_mmcvs(name: str):
    feat = FEAT.clone().requires_grad_()
    pooled = mmcv_ops.RoIAlign(spatial_scale=1 / 16, **ALIGN[name])(feat, ROIS)
    expected = GOLDEN[f'roi_align_{name}']
    torch.testing.assert_close(pooled, expected)
    pooled.backward(torch.linspace(-1, 1, pooled.numel()).view(pooled.shape))
    torch.testing.assert_close(feat.grad, GOLDEN[f'roi_align_{name}_grad'])


def test_the_maximum_equals_mmcvs():
    align = mmcv_ops.RoIAlign(7, 1 / 16, sampling_ratio=2, pool_mode='max')
    torch.testing.assert_close(align(FEAT, ROIS), GOLDEN['roi_align_max'])


def test_the_adaptive_maximum_equals_a_loop_over_regions():
    rois = torch.tensor([[0, 10.0, 20, 90, 45], [1, 30, 8, 200, 210]])  # 5 x 2 and 11 x 13 cells
    pooled = mmcv_ops.roi_align(FEAT, rois, 4, 1 / 16, 0, 'max')
    for roi, result, (rows, columns) in zip(rois, pooled, [(1, 2), (4, 3)], strict=True):
        fine = mmcv_ops.roi_align(FEAT, roi[None], (4 * rows, 4 * columns), 1 / 16, 1)
        expected = fine[0].unflatten(2, (4, columns)).unflatten(1, (4, rows)).amax((2, 4))
        torch.testing.assert_close(result, expected)


def test_roi_pool_takes_the_maximum_of_rounded_bins():
    rois = torch.tensor([[1.0, 0, 0, 47, 47]])
    pooled = mmcv_ops.RoIPool(2, 1 / 16)(FEAT, rois)
    corner = FEAT[1, :, :4, :4]  # cells 0 to round(47 / 16) = 3
    expected = corner.unflatten(2, (2, 2)).unflatten(1, (2, 2)).amax((2, 4))
    torch.testing.assert_close(pooled[0], expected)


@pytest.mark.parametrize('pool_mode', ['avg', 'max'])
def test_roi_align_in_bfloat16_is_that_of_the_rounded_features(pool_mode: str):
    feat = FEAT.bfloat16()
    pooled = mmcv_ops.roi_align(feat, ROIS, 7, 1 / 16, 0, pool_mode)
    exact = mmcv_ops.roi_align(feat.float(), ROIS, 7, 1 / 16, 0, pool_mode)
    assert pooled.dtype == torch.bfloat16
    torch.testing.assert_close(pooled, exact.bfloat16())


@pytest.mark.parametrize('op', [mmcv_ops.roi_align, mmcv_ops.roi_pool])
def test_no_regions_give_an_empty_result_with_a_gradient(op):
    feat = FEAT.clone().requires_grad_()
    pooled = op(feat, ROIS[:0], 7, 1 / 16)
    assert pooled.shape == (0, 5, 7, 7)
    pooled.sum().backward()
    assert not feat.grad.any()


def test_malformed_regions_are_refused():
    with pytest.raises(ValueError, match=r'\(K, 5\), got \(12, 4\)'):
        mmcv_ops.roi_align(FEAT, ROIS[:, :4], 7)
    with pytest.raises(ValueError, match="pool_mode='mean'"):
        mmcv_ops.roi_align(FEAT, ROIS, 7, pool_mode='mean')


@pytest.mark.parametrize('threshold', [0.3, 0.5, 0.7])
def test_nms_equals_mmcvs(threshold: float):
    dets, keep = mmcv_ops.nms(BOXES, SCORES, iou_threshold=threshold)
    assert keep.equal(GOLDEN[f'nms_{threshold}_keep'])
    assert dets.equal(GOLDEN[f'nms_{threshold}_dets'])


def test_nms_with_an_offset_and_with_limits_equals_mmcvs():
    assert mmcv_ops.nms(BOXES, SCORES, 0.5, offset=1)[1].equal(GOLDEN['nms_offset1_keep'])
    dets, keep = mmcv_ops.nms(BOXES, SCORES, 0.5, score_threshold=0.3, max_num=9)
    assert keep.equal(GOLDEN['nms_limits_keep'])
    assert dets.equal(GOLDEN['nms_limits_dets'])


def test_nms_gives_back_arrays_for_arrays_and_takes_mmcvs_old_argument():
    dets, keep = mmcv_ops.nms(BOXES.numpy(), SCORES.numpy(), iou_thr=0.5)
    assert isinstance(dets, np.ndarray) and isinstance(keep, np.ndarray)
    np.testing.assert_array_equal(keep, GOLDEN['nms_0.5_keep'])


@pytest.mark.parametrize(
    ('name', 'cfg', 'class_agnostic'),
    [
        ('by_class', dict(type='nms', iou_threshold=0.5), False),
        ('by_class', dict(iou_threshold=0.5, split_thr=10), False),
        ('agnostic', dict(type='nms', iou_threshold=0.5), True),
        ('agnostic', dict(iou_threshold=0.5, class_agnostic=True), False),
        ('max5', dict(iou_threshold=0.5, max_num=5), False),
        ('max5', dict(iou_threshold=0.5, max_num=5, split_thr=10), False),
    ],
)
def test_batched_nms_equals_mmcvs(name: str, cfg: dict, class_agnostic: bool):
    before = dict(cfg)
    dets, keep = mmcv_ops.batched_nms(BOXES, SCORES, IDS, cfg, class_agnostic)
    assert keep.equal(GOLDEN[f'batched_nms_{name}_keep'])
    assert dets.equal(GOLDEN[f'batched_nms_{name}_dets'])
    assert cfg == before


def test_batched_nms_without_a_config_sorts():
    dets, keep = mmcv_ops.batched_nms(BOXES, SCORES, IDS, None)
    assert keep.equal(SCORES.argsort(descending=True))
    assert dets.equal(torch.cat([BOXES, SCORES[:, None]], 1)[keep])


@pytest.mark.parametrize('cfg', [None, dict(iou_threshold=0.5)])
def test_no_boxes_give_no_boxes(cfg: dict | None):
    dets, keep = mmcv_ops.batched_nms(BOXES[:0], SCORES[:0], IDS[:0], cfg)
    assert dets.shape == (0, 5) and keep.shape == (0,) and keep.dtype == torch.long
    dets, keep = mmcv_ops.nms(BOXES[:0], SCORES[:0], 0.5)
    assert dets.shape == (0, 5) and keep.shape == (0,)


def test_boxes_in_bfloat16_stay_so():
    dets, keep = mmcv_ops.nms(BOXES.bfloat16(), SCORES.bfloat16(), 0.5)
    expected = mmcv_ops.nms(BOXES.bfloat16().float(), SCORES.bfloat16().float(), 0.5)[1]
    assert keep.equal(expected) and dets.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ('arguments', 'error', 'says'),
    [
        (dict(offset=2), ValueError, 'offset=2'),
        (dict(scores=SCORES[:3]), ValueError, r'\(60, 4\) and \(3,\)'),
    ],
)
def test_malformed_boxes_are_refused(arguments: dict, error: type, says: str):
    with pytest.raises(error, match=says):
        mmcv_ops.nms(**{**dict(boxes=BOXES, scores=SCORES, iou_threshold=0.5), **arguments})


def test_another_kind_of_suppression_says_what_to_install():
    with pytest.raises(NotImplementedError, match=r'soft_nms.*mmcv==2\.1\.0'):
        mmcv_ops.batched_nms(BOXES, SCORES, IDS, dict(type='soft_nms', iou_threshold=0.5))
