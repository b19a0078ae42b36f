from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmaction.utils import register_all_modules
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import build_optim_wrapper

from cvrl_mm.models import LinearProbeHead
from tests.ranks import run_ranks

OPTIM = dict(optimizer=dict(type='SGD', lr=32.0, momentum=0.9))


def samples(*labels: int) -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label(label) for label in labels]


def recognizer() -> torch.nn.Module:
    register_all_modules()
    torch.manual_seed(0)
    model = MODELS.build(
        dict(
            type='Recognizer3D',
            backbone=dict(type='R3DSlow', depth=18, width=0.125, frozen_stages=4, norm_eval=True),
            cls_head=dict(type='LinearProbeHead', num_classes=3, in_channels=64),
        )
    )
    model.init_weights()
    return model


def batch(seed: int = 0) -> dict:
    inputs = torch.rand(4, 1, 3, 4, 32, 32, generator=torch.Generator().manual_seed(seed))
    return dict(inputs=list(inputs), data_samples=samples(0, 1, 2, 0))


def test_scores_and_loss_are_those_of_the_formula():
    torch.manual_seed(0)
    head = LinearProbeHead(5, 8)
    head.init_weights()
    feats = torch.randn(4, 8, 2, 3, 3)
    pooled = feats.mean((2, 3, 4))
    unit = pooled / pooled.pow(2).sum(1, keepdim=True).sqrt()
    scores = unit @ head.fc_cls.weight.T
    torch.testing.assert_close(head(feats), scores)
    losses = head.loss(feats, samples(0, 4, 2, 2))
    expected = -scores.log_softmax(1)[range(4), [0, 4, 2, 2]].mean()
    torch.testing.assert_close(losses['loss_cls'], expected)
    assert losses['top5_acc'] == 1
    with torch.autocast('cpu', dtype=torch.bfloat16):
        torch.testing.assert_close(head.loss(feats, samples(0, 4, 2, 2)), losses)


def test_without_normalisation_scores_grow_with_the_feature():
    head = LinearProbeHead(5, 8, l2_normalize=False)
    head.init_weights()
    feats = torch.randn(4, 8)
    torch.testing.assert_close(head(3 * feats), 3 * head(feats))
    head.l2_normalize = True
    torch.testing.assert_close(head(3 * feats), head(feats))


def test_dropout_is_of_training_alone():
    torch.manual_seed(0)
    head = LinearProbeHead(5, 400, l2_normalize=False, dropout_ratio=0.5)
    head.init_weights()
    feats = torch.rand(4000, 400)
    expected = feats @ head.fc_cls.weight.T
    torch.testing.assert_close(head.eval()(feats), expected)
    scores = head.train()(feats)
    assert (scores - expected).abs().max() > 0.1
    torch.testing.assert_close(scores.mean(0), expected.mean(0), rtol=0, atol=0.06)


def test_starts_with_the_released_code_s_initialisation():
    torch.manual_seed(0)
    head = LinearProbeHead(400, 2048)
    head.init_weights()
    bound = (6 / 2448) ** 0.5
    assert head.fc_cls.weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
    assert head.fc_cls.weight.std().item() == pytest.approx(bound / 3**0.5, rel=1e-2)
    assert not head.fc_cls.bias.any()


def test_scores_stay_float32_under_autocast():
    head = LinearProbeHead(5, 8)
    feats = torch.randn(4, 8)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        scores = head(feats)
    torch.testing.assert_close(scores, head(feats), rtol=0, atol=0)


def test_probabilities_are_averaged_over_the_views_of_a_video():
    head = LinearProbeHead(5, 8, average_clips='prob')
    head.init_weights()
    feats = 9 * torch.randn(6, 8)
    predicted = head.predict(feats, samples(0, 1))
    expected = F.softmax(head(feats), 1).view(2, 3, 5).mean(1)
    torch.testing.assert_close(torch.stack([s.pred_score for s in predicted]), expected)


def test_training_moves_the_classifier_alone():
    model = recognizer()
    wrapper = build_optim_wrapper(model, OPTIM)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.train()
    for step in range(3):
        model.train_step(batch(step), wrapper)
    after = model.state_dict()
    moved = {k for k in before if not torch.equal(before[k], after[k])}
    assert moved == {'cls_head.fc_cls.weight', 'cls_head.fc_cls.bias'}
    assert len(wrapper.optimizer.state) == 2


def test_no_graph_is_kept_of_a_frozen_backbone():
    model = recognizer()
    model.train()
    feats, _ = model.extract_feat(torch.rand(2, 1, 3, 4, 32, 32))
    assert not feats.requires_grad
    norms = [m for m in model.backbone.modules() if isinstance(m, torch.nn.BatchNorm3d)]
    assert len(norms) == 20 and not any(norm.training for norm in norms)


def _two_ranks() -> dict:
    from mmengine.dist import get_rank

    wrapped = MMDistributedDataParallel(recognizer())
    optimizer = build_optim_wrapper(wrapped, OPTIM)
    wrapped.train()
    for step in range(2):
        wrapped.train_step(batch(2 * step + get_rank()), optimizer)
    return wrapped.module.state_dict()


def test_two_ranks_train_one_classifier(tmp_path: Path):
    first, second = run_ranks(_two_ranks, 2, tmp_path)
    start = recognizer().state_dict()
    for key, value in first.items():
        torch.testing.assert_close(value, second[key], rtol=0, atol=0)
        if key.startswith('backbone'):
            torch.testing.assert_close(value, start[key], rtol=0, atol=0)
    assert not torch.equal(first['cls_head.fc_cls.weight'], start['cls_head.fc_cls.weight'])
