from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData

from cvrl_mm.detection import ActionFasterRCNN
from cvrl_mm.detection.action_faster_rcnn import as_people

CONFIG = Path(__file__).parents[2] / 'configs' / 'detection' / 'synthetic_ava_faster_rcnn.py'
BOXES = torch.tensor([[8.0, 8.0, 24.0, 36.0], [36.0, 20.0, 56.0, 48.0]])
ACTIONS = torch.tensor([[0.0, 1, 0, 1], [0, 0, 1, 0]])


@pytest.fixture
def model() -> ActionFasterRCNN:
    torch.manual_seed(0)
    model = MODELS.build(Config.fromfile(CONFIG).model)
    model.init_weights()
    return model


def sample(**boxes: torch.Tensor) -> ActionDataSample:
    sample = ActionDataSample(metainfo=dict(img_shape=(64, 64)))
    sample.gt_instances = InstanceData(**{'bboxes': BOXES, 'labels': ACTIONS, **boxes})
    return sample


def test_people_are_one_class_with_the_same_boxes():
    people = as_people(sample())
    assert torch.equal(people.gt_instances.bboxes, BOXES)
    assert people.gt_instances.labels.tolist() == [0, 0]
    assert people.gt_instances.labels.dtype == torch.int64
    assert people.metainfo == dict(img_shape=(64, 64), pad_shape=(64, 64))


def test_one_backbone_learns_from_both_heads(model: ActionFasterRCNN):
    clips = torch.rand(2, 3, 8, 64, 64)
    losses = model.loss(clips, [sample(), sample()])
    parts = dict(rpn=losses['loss_rpn_cls'][0] + losses['loss_rpn_bbox'][0])
    parts['action'] = losses['loss_action_cls']
    stem = next(model.backbone.parameters())
    own = dict(rpn=model.rpn_head.rpn_cls.weight, action=model.roi_head.bbox_head.fc_cls.weight)
    for name, loss in parts.items():
        for head, weight in own.items():
            grads = torch.autograd.grad(loss, [stem, weight], retain_graph=True, allow_unused=True)
            assert grads[0].abs().sum() > 0
            assert (grads[1] is not None and grads[1].abs().sum() > 0) == (name == head)


def test_the_proposal_network_sees_the_mean_over_the_clip(model: ActionFasterRCNN):
    seen = []
    model.rpn_head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.eval()
    clip = torch.rand(1, 3, 8, 64, 64)
    with torch.no_grad():
        model.predict(clip, [sample()])
        feats = model.backbone(clip)
    assert feats.shape == (1, 64, 4, 4, 4)
    assert len(seen) == len(seen[0]) == 1
    torch.testing.assert_close(seen[0][0], feats.sum(2) / 4)


def test_scores_are_of_the_action_and_of_being_a_person(model: ActionFasterRCNN):
    people = InstanceData(bboxes=BOXES.clone(), scores=torch.tensor([0.5, 0.125]))
    model.rpn_head.predict = lambda *args, **kwargs: [people]
    model.eval()
    clip = torch.rand(1, 3, 8, 64, 64)
    with torch.no_grad():
        result = model.predict(clip, [sample()])[0].pred_instances
        feats, rois = model.backbone(clip), torch.cat([torch.zeros(2, 1), BOXES], 1)
        logits = model.roi_head._bbox_forward(feats, rois, [])['cls_score']
    torch.testing.assert_close(result.bboxes, BOXES / 64)
    torch.testing.assert_close(result.scores, logits.sigmoid() * torch.tensor([[0.5], [0.125]]))


def test_finds_at_least_one_box_in_anything(model: ActionFasterRCNN):
    model.eval()
    with torch.no_grad():
        result = model.predict(torch.zeros(1, 3, 8, 48, 80), [sample()])[0].pred_instances
    assert 1 <= len(result.bboxes) <= 20
    assert (result.bboxes >= 0).all() and (result.bboxes[:, 2:] > result.bboxes[:, :2]).any()
