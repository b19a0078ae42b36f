"""The detectors as the configs compose them: with a proposal network and on given boxes."""

import importlib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData
from torch import nn

from cvrl_mm import detection
from cvrl_mm.detection import ActionFasterRCNN
from cvrl_mm.mmcv_ops import roi_align

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'
BOXES = torch.tensor([[8.0, 8.0, 24.0, 36.0], [36.0, 20.0, 56.0, 48.0]])
ACTIONS = torch.tensor([[0.0, 1, 0, 1], [0, 0, 1, 0]])


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS.build(Config.fromfile(CONFIGS / f'{name}.py').model)
    model.init_weights()
    return model


@pytest.fixture
def model() -> ActionFasterRCNN:
    return build('synthetic_ava_faster_rcnn')


@pytest.fixture
def given() -> nn.Module:
    """The detector on given boxes, with batch norm as in what it is compared with."""
    return build('synthetic_ava_fast_rcnn').eval()


def sample(**boxes: torch.Tensor) -> ActionDataSample:
    sample = ActionDataSample(metainfo=dict(img_shape=(64, 64)))
    sample.gt_instances = InstanceData(**{'bboxes': BOXES, 'labels': ACTIONS, **boxes})
    return sample


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


def proposed(proposals: torch.Tensor) -> ActionDataSample:
    given = sample()
    given.proposals = InstanceData(bboxes=proposals)
    return given


def test_scores_are_of_the_mean_over_time_then_the_maximum_over_space(given: nn.Module):
    """Sec. 4.1, with a 3D RoIAlign: one of every time step."""
    clip = torch.rand(1, 3, 8, 64, 64)
    with torch.no_grad():
        scores = given.predict(clip, [proposed(BOXES.clone())])[0].pred_instances.scores
        feats = given.backbone(clip)
        assert feats.shape[2:] == (4, 4, 4)  # stride 16, as stage 5 does not stride
        rois = torch.cat([torch.zeros(2, 1), BOXES], 1)
        steps = [f.contiguous() for f in feats.unbind(2)]
        aligned = [roi_align(f, rois, (7, 7), 1 / 16, 0, 'avg', True) for f in steps]
        pooled = torch.stack(aligned).mean(0).amax((2, 3))
        expected = given.roi_head.bbox_head.fc_cls(pooled).sigmoid()
    torch.testing.assert_close(scores, expected)


FITTING, BESIDE = BOXES[:1] + 0.2, BOXES[:1] + 10


@pytest.mark.parametrize(
    ('proposals', 'rows', 'targets'),
    [
        (FITTING, FITTING, ACTIONS[:1]),
        (BESIDE, BESIDE, torch.zeros(1, 4)),  # in no annotated box: no action, as in SlowFast
        (torch.cat([BESIDE, FITTING]), torch.cat([FITTING, BESIDE]), [[0.0, 1, 0, 1], [0] * 4]),
        (torch.zeros(0, 4), torch.zeros(0, 4), torch.zeros(0, 4)),
    ],
)
def test_the_loss_is_of_annotated_and_of_all_proposed_boxes(
    given: nn.Module, proposals: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor
):
    clips = torch.rand(1, 3, 8, 64, 64)
    loss = given.loss(clips, [proposed(proposals)])['loss_action_cls']
    boxes = torch.cat([BOXES, rows])
    rois = torch.cat([torch.zeros(len(boxes), 1), boxes], 1)
    logits = given.roi_head._bbox_forward(given.backbone(clips), rois, [])['cls_score']
    wanted = torch.cat([ACTIONS, torch.as_tensor(targets)])
    expected = F.binary_cross_entropy_with_logits(logits[:, 1:], wanted[:, 1:])
    torch.testing.assert_close(loss, expected)


def test_a_proposal_network_trains_its_actions_on_people_alone(model: ActionFasterRCNN):
    seen = []
    head = model.roi_head.bbox_head
    head.register_forward_hook(lambda module, args, logits: seen.append(logits))
    targets = []
    get_targets = head.get_targets
    head.get_targets = lambda *args: targets.append(get_targets(*args)) or targets[-1]
    model.loss(torch.rand(2, 3, 8, 64, 64), [sample(), sample()])
    assert len(seen[0]) == len(targets[0][0]) >= 4
    assert (targets[0][0].sum(1) > 0).all()


def test_without_mmdet_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    with pytest.raises(RuntimeError, match='mmdet'):
        importlib.reload(detection)
