"""MMAction2's detector on given person boxes, as the configs compose it."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData
from torch import nn

import cvrl_mm.detection  # noqa: F401
from cvrl_mm.mmcv_ops import roi_align

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'
CONFIG = CONFIGS / 'synthetic_ava_fast_rcnn.py'
BOXES = torch.tensor([[8.0, 8.0, 24.0, 36.0], [36.0, 20.0, 56.0, 48.0]])
ACTIONS = torch.tensor([[0.0, 1, 0, 1], [0, 0, 1, 0]])


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    cfg = Config.fromfile(CONFIG).model
    model = MODELS.build(cfg)
    model.init_weights()
    return model


def sample(proposals: torch.Tensor) -> ActionDataSample:
    sample = ActionDataSample(metainfo=dict(img_shape=(64, 64)))
    sample.gt_instances = InstanceData(bboxes=BOXES, labels=ACTIONS)
    sample.proposals = InstanceData(bboxes=proposals)
    return sample


def test_scores_are_of_the_mean_over_time_then_the_maximum_over_space(model: nn.Module):
    """Section 4.1, with a 3D RoIAlign: one of every time step."""
    model.eval()
    clip = torch.rand(1, 3, 8, 64, 64)
    with torch.no_grad():
        scores = model.predict(clip, [sample(BOXES.clone())])[0].pred_instances.scores
        feats = model.backbone(clip)
        assert feats.shape[2:] == (4, 4, 4)  # stride 16, as stage 5 does not stride
        rois = torch.cat([torch.zeros(2, 1), BOXES], 1)
        steps = [f.contiguous() for f in feats.unbind(2)]
        aligned = [roi_align(f, rois, (7, 7), 1 / 16, 0, 'avg', True) for f in steps]
        pooled = torch.stack(aligned).mean(0).amax((2, 3))
        expected = model.roi_head.bbox_head.fc_cls(pooled).sigmoid()
    torch.testing.assert_close(scores, expected)


def test_the_loss_is_of_annotated_and_of_fitting_boxes(model: nn.Module):
    model.eval()  # batch norm as in what is compared
    clips = torch.rand(1, 3, 8, 64, 64)
    fitting, beside = BOXES[:1] + 0.2, BOXES[:1] + 10
    loss = model.loss(clips, [sample(torch.cat([fitting, beside]))])['loss_action_cls']
    boxes = torch.cat([BOXES, fitting])
    rois = torch.cat([torch.zeros(3, 1), boxes], 1)
    logits = model.roi_head._bbox_forward(model.backbone(clips), rois, [])['cls_score']
    wanted = ACTIONS[[0, 1, 0]]
    torch.testing.assert_close(
        loss, F.binary_cross_entropy_with_logits(logits[:, 1:], wanted[:, 1:])
    )


def test_without_proposals_the_annotated_boxes_train(model: nn.Module):
    model.eval()
    clips = torch.rand(1, 3, 8, 64, 64)
    loss = model.loss(clips, [sample(torch.zeros(0, 4))])['loss_action_cls']
    beside = model.loss(clips, [sample(BOXES + 10)])['loss_action_cls']
    torch.testing.assert_close(loss, beside)
    assert loss.isfinite() and loss > 0


def test_dropout_drops_pooled_features():
    """As SlowFast does; before the maximum over 7 x 7, it would drop next to nothing."""
    cfg = Config.fromfile(CONFIGS / 'ava22_videos_cvrl.py').model.roi_head.bbox_head
    assert cfg.dropout_ratio == 0.5
    torch.manual_seed(0)
    head = MODELS.build({**cfg, 'type': f'mmdet.{cfg.type}'})
    seen = []
    head.fc_cls.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    feats = torch.rand(64, cfg.in_channels, 1, 7, 7)
    head.train()(feats)
    head.eval()(feats)
    training, testing = seen
    dropped = training == 0
    assert 0.45 < dropped.float().mean() < 0.55
    torch.testing.assert_close(training[~dropped], 2 * testing[~dropped])
