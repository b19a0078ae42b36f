import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from mmengine.dist import get_rank
from mmengine.model import MMDistributedDataParallel, convert_sync_batchnorm
from torch import Tensor

from cvrl_mm.models import InfoNCEHead, LinearProbeHead, heads
from cvrl_mm.models.norm import trace_sync_norms
from tests.ranks import run_ranks

GOLDEN = Path(__file__).parents[1] / 'data' / 'loss.npz'


def linear_head(**kwargs) -> InfoNCEHead:
    return InfoNCEHead(8, num_hidden_layers=0, out_channels=4, **kwargs)


def loss_by_loops(z: Tensor, temperature: float) -> float:
    """Eq. 1 as it is printed, over (N, 2, D), both directions summed."""
    z = z.detach()
    clips = [(z[i, j] / z[i, j].norm(), i, j) for i in range(len(z)) for j in range(2)]
    total = 0.0
    for u, i, j in clips:
        others = [(v, k, m) for v, k, m in clips if (k, m) != (i, j)]
        denominator = sum(math.exp(u @ v / temperature) for v, _, _ in others)
        positive = next(math.exp(u @ v / temperature) for v, k, _ in others if k == i)
        total -= math.log(positive / denominator)
    return total / len(z)


def test_equals_a_loop_over_equation_1():
    z = torch.randn(5, 2, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    loss = linear_head(temperature=0.2).contrast(z)['loss']
    assert loss.item() == pytest.approx(loss_by_loops(z, 0.2), rel=1e-12)


def test_equals_the_closed_form_for_identical_embeddings():
    n = 7
    scores = linear_head().contrast(torch.ones(n, 2, 4, dtype=torch.double))
    assert scores['loss'].item() == pytest.approx(2 * math.log(2 * n - 1))
    assert scores['entropy'].item() == pytest.approx(math.log(n))
    assert scores['accuracy'] == 0  # a collapsed network must not look right


def test_equals_the_closed_form_for_orthogonal_videos():
    n = 4
    z = torch.eye(n, dtype=torch.double)[:, None].expand(n, 2, n)
    scores = linear_head(temperature=0.5).contrast(z)
    expected = 2 * math.log(1 + (2 * n - 2) * math.exp(-2))
    assert scores['loss'].item() == pytest.approx(expected)
    assert scores['accuracy'] == scores['accuracy_top5'] == 1


def test_matches_the_released_code():
    golden = np.load(GOLDEN)
    z = torch.from_numpy(golden['hidden']).view(2, 6, 128).transpose(0, 1).requires_grad_()
    scores = linear_head().contrast(z)
    scores['loss'].backward()
    assert scores['loss'].item() == pytest.approx(float(golden['contrastive_loss']), abs=1e-5)
    assert scores['accuracy'].item() == pytest.approx(float(golden['contrast_acc']), abs=1e-5)
    assert scores['entropy'].item() == pytest.approx(float(golden['contrast_entropy']), abs=1e-5)
    grad = z.grad.transpose(0, 1).reshape(12, 128).numpy()
    np.testing.assert_allclose(grad, golden['grad'], atol=1e-5 * np.abs(golden['grad']).max())


def test_top5_looks_at_second_clips_only():
    # the twin comes sixth: five other videos' second clips are nearer to the first clip
    z = torch.zeros(8, 2, 8)
    z[:, 0, 0] = 1
    z[:, 1] = torch.eye(8)[7]
    z[1:6, 1] = torch.eye(8)[0]
    scores = linear_head().contrast(z)
    assert scores['accuracy_top5'].item() == pytest.approx(5 / 8)  # videos 1-5 tie five ways
    assert scores['accuracy'].item() == 0


@pytest.mark.parametrize('layers', [0, 1, 3])
def test_projection_has_the_released_layers(layers: int):
    head = InfoNCEHead(6, hidden_channels=10, num_hidden_layers=layers, out_channels=4)
    head.init_weights()
    linear = [m for m in head.projection if isinstance(m, torch.nn.Linear)]
    norms = [m for m in head.projection if isinstance(m, torch.nn.BatchNorm1d)]
    assert [m.in_features for m in linear] == [6, 10, 10, 10][: layers + 1]
    assert [m.momentum for m in norms] == [0.003] * layers
    assert all((m.bias == 0).all() for m in linear)
    limit = math.sqrt(6 / (linear[-1].in_features + 4))  # Glorot
    assert 0.5 * limit < linear[-1].weight.abs().max() <= limit


def test_scores_in_float32_under_autocast():
    head = linear_head()
    feats = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast('cpu', torch.bfloat16):
        z = head(feats)
        loss = head.loss(feats, [ActionDataSample()] * 3)['loss']
    assert z.dtype == torch.bfloat16 and loss.dtype == torch.float32
    assert loss.item() == pytest.approx(loss_by_loops(z.float().view(3, 2, 4), 0.1), rel=1e-5)


def test_an_embedding_of_zero_gets_no_gradient_and_others_the_same():
    z = torch.randn(3, 2, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    z[1, 0] = 0
    z.requires_grad_()
    linear_head().contrast(z)['loss'].backward()
    assert (z.grad[1, 0] == 0).all()
    plain = z.detach().clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, 'normalize', lambda x: F.normalize(x, dim=1))
        linear_head().contrast(plain)['loss'].backward()
    others = torch.arange(6).view(3, 2) != 2
    assert torch.equal(z.grad[others], plain.grad[others])
    assert plain.grad[1, 0].abs().max() > 1e9


def test_predict_averages_the_views_of_a_video():
    head, feats = linear_head(), torch.randn(6, 8)
    samples = head.predict(feats, [ActionDataSample() for _ in range(2)])
    z = torch.nn.functional.normalize(head(feats), dim=1)[3:].mean(0)
    torch.testing.assert_close(samples[1].embedding, z / z.norm())


def test_neither_nan_nor_zeros_count_as_learned():
    scores = linear_head().contrast(torch.full((6, 2, 4), torch.nan))
    assert scores['accuracy'] == 0 and scores['loss'].isnan()


@pytest.mark.parametrize('num_videos', [0, 1])
def test_a_batch_without_negatives_is_refused(num_videos: int):
    with pytest.raises(ValueError, match='at least two videos'):
        linear_head().contrast(torch.randn(num_videos, 2, 4))


@pytest.mark.parametrize(
    'wrong',
    [
        dict(temperature=0.0),
        dict(temperature=math.nan),
        dict(num_hidden_layers=-1),
        dict(out_channels=0),
    ],
)
def test_bad_arguments_are_named(wrong: dict):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        InfoNCEHead(8, **wrong)


# -- the linear classifier ---------------------------------------------------------------------


def samples(*labels: int) -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label(label) for label in labels]


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


def test_probabilities_are_averaged_over_the_views_of_a_video():
    head = LinearProbeHead(5, 8, average_clips='prob')
    head.init_weights()
    feats = 9 * torch.randn(6, 8)
    predicted = head.predict(feats, samples(0, 1))
    expected = F.softmax(head(feats), 1).view(2, 3, 5).mean(1)
    torch.testing.assert_close(torch.stack([s.pred_score for s in predicted]), expected)


# -- several ranks -------------------------------------------------------------------------


def small_head() -> InfoNCEHead:
    torch.manual_seed(1)
    head = InfoNCEHead(8, hidden_channels=6, num_hidden_layers=1, out_channels=4)
    head.init_weights()
    return head.double()


def batch(num_videos: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(2 * num_videos, 8, dtype=torch.double, generator=generator)


def step(shares: list[int]) -> dict[str, Tensor]:
    """Forward and backward of this rank's share of the videos, as the runner does it."""
    head = convert_sync_batchnorm(small_head())
    trace_sync_norms(head)
    model = MMDistributedDataParallel(head, device_ids=[0], broadcast_buffers=False)
    first = sum(shares[: get_rank()])
    videos = range(first, first + shares[get_rank()])
    feats = batch(sum(shares)).view(-1, 2, 8)[videos.start : videos.stop].flatten(0, 1)
    scores = head.contrast(model(feats).unflatten(0, (-1, 2)))
    scores['loss'].backward()
    grads = {f'grad.{k}': p.grad for k, p in head.named_parameters()}
    buffers = {k: b for k, b in head.named_buffers() if 'running' in k}
    return {**{k: v.detach() for k, v in scores.items()}, **grads, **buffers}


@pytest.mark.parametrize('shares', [[4, 4], [3, 1]], ids=['even', 'uneven last batch'])
def test_two_ranks_equal_one_process(shares: list[int], tmp_path: Path):
    head = small_head()
    expected = head.contrast(head(batch(sum(shares))).unflatten(0, (-1, 2)))
    expected['loss'].backward()
    expected |= {f'grad.{k}': p.grad for k, p in head.named_parameters()}
    expected |= {k: b for k, b in head.named_buffers() if 'running' in k}
    for scores in run_ranks(step, 2, tmp_path, shares):
        assert scores.keys() == expected.keys()
        for name, value in scores.items():
            torch.testing.assert_close(
                value,
                expected[name].detach(),
                rtol=1e-6,
                atol=1e-12,
                msg=lambda m, n=name: f'{n}: {m}',
            )
