"""The operators for mmcv-lite against results of mmcv 2.1.0's compiled ones."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.processes import run_program

pytest.importorskip('torchvision')
from cvrl_mm import mmcv_ops

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
    torch.testing.assert_close(pooled, GOLDEN[f'roi_align_{name}'])
    pooled.backward(torch.linspace(-1, 1, pooled.numel()).view(pooled.shape))
    torch.testing.assert_close(feat.grad, GOLDEN[f'roi_align_{name}_grad'])


def test_bfloat16_is_computed_in_float32():
    feat, boxes, scores = FEAT.bfloat16(), BOXES.bfloat16(), SCORES.bfloat16()
    pooled = mmcv_ops.roi_align(feat, ROIS, 7, 1 / 16)
    exact = mmcv_ops.roi_align(feat.float(), ROIS, 7, 1 / 16)
    torch.testing.assert_close(pooled, exact.bfloat16())
    dets, keep = mmcv_ops.nms(boxes, scores, 0.5)
    assert keep.equal(mmcv_ops.nms(boxes.float(), scores.float(), 0.5)[1])
    assert dets.dtype == torch.bfloat16


def test_no_regions_and_no_boxes():
    feat = FEAT.clone().requires_grad_()
    pooled = mmcv_ops.roi_align(feat, ROIS[:0], 7, 1 / 16)
    assert pooled.shape == (0, 5, 7, 7)
    pooled.sum().backward()
    assert not feat.grad.any()
    for cfg in (None, dict(iou_threshold=0.5)):
        dets, keep = mmcv_ops.batched_nms(BOXES[:0], SCORES[:0], IDS[:0], cfg)
        assert dets.shape == (0, 5) and keep.shape == (0,) and keep.dtype == torch.long


@pytest.mark.parametrize(
    ('name', 'settings'),
    [
        *((f'{t}', dict(iou_threshold=t)) for t in (0.3, 0.5, 0.7)),
        ('offset1', dict(iou_threshold=0.5, offset=1)),
        ('limits', dict(iou_threshold=0.5, score_threshold=0.3, max_num=9)),
    ],
)
def test_nms_equals_mmcvs(name: str, settings: dict):
    dets, keep = mmcv_ops.nms(BOXES, SCORES, **settings)
    assert keep.equal(GOLDEN[f'nms_{name}_keep'])
    assert dets.equal(torch.cat([BOXES, SCORES[:, None]], 1)[keep])


@pytest.mark.parametrize(
    ('name', 'cfg', 'class_agnostic'),
    [
        ('by_class', dict(type='nms', iou_threshold=0.5), False),
        ('by_class', dict(iou_threshold=0.5, split_thr=10), False),
        ('agnostic', dict(type='nms', iou_threshold=0.5), True),
        ('agnostic', dict(iou_threshold=0.5, class_agnostic=True), False),
        ('max5', dict(iou_threshold=0.5, max_num=5, split_thr=10), False),
        ('sorted', None, False),
    ],
)
def test_batched_nms_equals_mmcvs(name: str, cfg: dict, class_agnostic: bool):
    dets, keep = mmcv_ops.batched_nms(BOXES, SCORES, IDS, cfg, class_agnostic)
    assert keep.equal(GOLDEN.get(f'batched_nms_{name}_keep', SCORES.argsort(descending=True)))
    assert dets.equal(torch.cat([BOXES, SCORES[:, None]], 1)[keep])


IN_ANY_ORDER = """
import mmcv.cnn, mmengine.model  # as a user's script may, before it imports this package
import cvrl_mm.detection
import mmdet.models, mmcv.ops
from mmaction.registry import MODELS
assert MODELS.get('mmdet.AVARoIHead')
print(mmcv.ops.__file__)
from mmcv.ops.carafe import CARAFEPack
CARAFEPack(8)
"""


@pytest.mark.skipif('mmcv._ext' in sys.modules, reason='this mmcv has its own operators')
def test_mmdet_loads_and_other_operators_say_what_to_install():
    pytest.importorskip('mmdet')
    run = run_program([sys.executable, '-W', 'ignore', '-c', IN_ANY_ORDER])
    assert run.stdout.strip() == mmcv_ops.__file__, run.stderr
    assert run.stderr.strip().splitlines()[-1].startswith('NotImplementedError: mmcv-lite has no ')


def test_what_the_operators_cannot_do_is_refused():
    with pytest.raises(NotImplementedError, match='max'):
        mmcv_ops.roi_align(FEAT, ROIS, 7, pool_mode='max')
    with pytest.raises(NotImplementedError, match='soft_nms'):
        mmcv_ops.batched_nms(BOXES, SCORES, IDS, dict(type='soft_nms', iou_threshold=0.5))
