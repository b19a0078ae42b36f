from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmengine.dist import get_rank
from mmengine.model import MMDistributedDataParallel, convert_sync_batchnorm
from torch import Tensor, nn

from cvrl_mm.models import InfoNCEHead
from cvrl_mm.models.norm import trace_sync_norms
from cvrl_mm.models.recognizer import embed_in_chunks
from tests.ranks import run_ranks

IMAGENET = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
UNIT = dict(mean=[0.0] * 3, std=[255.0] * 3)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()


def batch(num: int = 6) -> Tensor:
    return torch.randn(num, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def gradients(net: nn.Module, z: Tensor) -> list[Tensor]:
    z.softmax(0).square().sum().backward()  # a loss that joins all rows
    return [p.grad for p in net.parameters()]


def test_batch_norm_sees_chunks_and_running_statistics_move_once():
    net, reference = network(), network()
    z = embed_in_chunks(net, batch(), 3, net)
    torch.testing.assert_close(z, torch.cat([reference(c) for c in batch().split(3)]))
    before = network()[1]
    inputs = [network()[0](chunk) for chunk in batch().split(3)]
    mean = 0.9 * before.running_mean + 0.1 * torch.stack([x.mean(0) for x in inputs]).mean(0)
    var = 0.9 * before.running_var + 0.1 * torch.stack([x.var(0) for x in inputs]).mean(0)
    gradients(net, z)  # recomputes
    torch.testing.assert_close(net[1].running_mean, mean)
    torch.testing.assert_close(net[1].running_var, var)
    assert net[1].num_batches_tracked == 1


def test_random_draws_are_those_of_the_first_pass():
    net, draws = network(), []

    def embed(x: Tensor) -> Tensor:
        draws.append(torch.rand(()))
        return net(x) * draws[-1]

    gradients(net, embed_in_chunks(embed, batch(), 2, net))
    assert len(draws) == 6 and len(set(draws[:3])) == 3
    assert sorted(draws[:3]) == sorted(draws[3:])


def recognizer(chunk_size: int | None = None, norm_eval: bool = True) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS.build(
        dict(
            type='CVRL',
            chunk_size=chunk_size,
            backbone=dict(type='R3DSlow', depth=18, width=0.125, norm_eval=norm_eval),
            cls_head=dict(type='InfoNCEHead', in_channels=64, hidden_channels=16, out_channels=8),
            data_preprocessor=dict(type='ActionDataPreprocessor', format_shape='NCTHW', **UNIT),
        )
    )
    model.init_weights()
    return model.train()


@pytest.mark.parametrize('autocast', [False, True])
def test_recognizer_gives_the_unchunked_loss_and_gradients(autocast: bool):
    generator = torch.Generator().manual_seed(2)
    videos = [
        torch.randint(256, (2, 3, 4, 32, 32), dtype=torch.uint8, generator=generator)
        for _ in range(5)
    ]
    results = []
    for chunk_size in (None, 2):
        model = recognizer(chunk_size)
        data = dict(inputs=list(videos), data_samples=[ActionDataSample() for _ in videos])
        data = model.data_preprocessor(data, training=True)
        assert (data['inputs'].dtype == torch.uint8) == (chunk_size is not None)
        with torch.autocast('cpu', torch.float16, enabled=autocast):
            loss = model(**data, mode='loss')['loss']
        loss.backward()
        results.append((loss, [p.grad for p in model.parameters()]))
    (loss, grads), (chunked_loss, chunked_grads) = results
    tolerance = 2e-2 if autocast else 1e-5
    torch.testing.assert_close(chunked_loss, loss, rtol=tolerance, atol=0)
    for actual, expected in zip(chunked_grads, grads, strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * scale + 1e-12)


@pytest.mark.parametrize(
    ('wrong', 'seen'),
    [
        (dict(chunk_size=0), 'chunk_size'),
        (dict(chunk_size=1.5), 'chunk_size'),
        (dict(chunk_size=2, neck=dict(type='TPN')), 'neck'),
        (dict(chunk_size=2, backbone=dict(type='R3DSlow', with_cp=True)), 'with_cp'),
        (dict(cls_head=dict(type='InfoNCEHead', in_channels=7)), 'in_channels=7'),
    ],
)
def test_bad_arguments_are_named(wrong: dict, seen: str):
    with pytest.raises(ValueError, match=seen):
        MODELS.build(dict(type='CVRL', backbone=dict(type='R3DSlow', depth=18)) | wrong)


def videos(num: int, clips: int = 2) -> dict:
    inputs = [torch.randint(256, (clips, 3, 4, 32, 32), dtype=torch.uint8) for _ in range(num)]
    return dict(inputs=inputs, data_samples=[ActionDataSample() for _ in range(num)])


def test_predict_embeds_a_video_of_any_number_of_clips():
    model = recognizer(norm_eval=False)
    model.eval()
    data = model.data_preprocessor(videos(2, clips=3), training=False)
    samples = model(**data, mode='predict')
    assert [s.embedding.shape for s in samples] == [(8,), (8,)]
    torch.testing.assert_close(samples[0].embedding.norm(), torch.tensor(1.0))
    one = model(data['inputs'][1:], data['data_samples'][1:], mode='predict')[0]
    torch.testing.assert_close(one.embedding, samples[1].embedding)


def test_refuses_other_than_two_clips():
    model = recognizer(norm_eval=False)
    data = model.data_preprocessor(videos(2, clips=3), training=True)
    with pytest.raises(ValueError, match='two clips per video'):
        model(**data, mode='loss')


def config(**head) -> dict:
    backbone = dict(type='R3DSlow', depth=18, width=0.125)
    return dict(type='CVRL', backbone=backbone, cls_head=dict(type='InfoNCEHead', **head))


def test_head_takes_the_channels_of_the_backbone():
    assert MODELS.build(config()).cls_head.projection[0].in_features == 64
    several = config()
    several['backbone']['out_indices'] = (2, 3)
    assert MODELS.build(several).cls_head.projection[0].in_features == 32 + 64


# -- the data preprocessor ----------------------------------------------------------------------


def preprocessors(**kwargs: object):
    kwargs = dict(format_shape='NCTHW') | kwargs
    names = ('ClipDataPreprocessor', 'ActionDataPreprocessor')
    return [MODELS.build(dict(type=name, **kwargs)) for name in names]


def stacked_batch() -> dict:
    inputs = torch.randint(256, (3, 2, 3, 2, 4, 4), dtype=torch.uint8)
    return dict(inputs=inputs, data_samples=[ActionDataSample() for _ in inputs])


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize(
    'kwargs', [UNIT, IMAGENET, dict(IMAGENET, to_rgb=True), {}], ids=['unit', 'mean', 'rgb', 'none']
)
def test_gives_the_stock_values_for_stacked_and_listed_inputs(kwargs: dict, training: bool):
    ours, stock = preprocessors(**kwargs)
    data = stacked_batch()
    listed = {**data, 'inputs': list(data['inputs'])}
    expected = stock(dict(listed), training)['inputs']
    for inputs in (data, listed):
        out = ours(inputs, training)
        assert out['inputs'].dtype == torch.float32
        assert torch.equal(out['inputs'], expected)
        assert out['data_samples'] == data['data_samples']


@pytest.mark.parametrize('kwargs', [UNIT, IMAGENET], ids=['unit', 'mean'])
def test_under_autocast_gives_what_the_convolution_would_cast_to(kwargs: dict):
    ours, stock = preprocessors(**kwargs)
    data = stacked_batch()
    with torch.autocast('cpu', torch.bfloat16):
        out = ours(data, training=True)['inputs']
    expected = stock(dict(data, inputs=list(data['inputs'])), training=True)['inputs']
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, expected.to(torch.bfloat16))


def test_in_chunks_a_training_batch_stays_uint8():
    ours, stock = preprocessors(**IMAGENET)
    ours.in_chunks = True
    data = stacked_batch()
    listed = {**data, 'inputs': list(data['inputs'])}
    expected = stock(dict(listed))['inputs']
    assert torch.equal(ours(dict(listed))['inputs'], expected)  # in tests, at once
    waiting = ours(dict(listed), training=True)['inputs']
    assert torch.equal(waiting, data['inputs'])
    assert torch.equal(ours.preprocess(waiting[1:], None, True)[0], expected[1:])


def test_the_layout_of_the_loader_is_kept():
    clips = torch.randint(256, (4, 2, 4, 4, 3), dtype=torch.uint8).permute(0, 4, 1, 2, 3)
    for kwargs in (UNIT, IMAGENET):
        ours = preprocessors(**kwargs)[0]
        out = ours(dict(inputs=clips.unflatten(0, (2, 2)), data_samples=[]))['inputs']
        assert out.flatten(0, 1).is_contiguous(memory_format=torch.channels_last_3d)


# -- several ranks -------------------------------------------------------------------------


class Pairs(nn.Module):
    """An encoder and a loss that joins the videos of all ranks."""

    def __init__(self, chunk_size: int | None) -> None:
        super().__init__()
        self.encoder, self.chunk_size = network(), chunk_size
        self.head = InfoNCEHead(3, num_hidden_layers=0, out_channels=4)
        self.head.init_weights()
        self.double()

    def forward(self, videos: Tensor) -> Tensor:
        """Map (N, 2, 4) to the loss."""
        if self.chunk_size is None:
            feats = self.embed(videos)
        else:
            feats = embed_in_chunks(self.embed, videos, self.chunk_size, self.encoder)
        return self.head.contrast(self.head(feats).unflatten(0, (-1, 2)))['loss']

    def embed(self, videos: Tensor) -> Tensor:
        return self.encoder(videos.flatten(0, 1))

    def step(self, wrapped: nn.Module, videos: Tensor) -> dict[str, Tensor]:
        """Backward; returns gradients and running statistics."""
        wrapped(videos).backward()
        results = {f'grad.{name}': p.grad for name, p in self.named_parameters()}
        return {**results, **{k: b for k, b in self.named_buffers() if 'running' in k}}


def rank_step(videos: Tensor, frozen: bool) -> dict[str, Tensor]:
    model = convert_sync_batchnorm(Pairs(chunk_size=2)).train(not frozen)
    trace_sync_norms(model)
    wrapped = MMDistributedDataParallel(model, device_ids=[0], broadcast_buffers=False)
    return model.step(wrapped, videos[get_rank()])


@pytest.mark.parametrize('frozen', [True, False], ids=['frozen norms', 'training norms'])
def test_two_ranks_equal_one_process(frozen: bool, tmp_path: Path):
    videos = batch(12).view(2, 3, 2, 4)  # two ranks of three videos: chunks of two and one
    if frozen:
        model = Pairs(chunk_size=None).eval()
        expected = model.step(model, videos.flatten(0, 1))
    else:  # a norm sees the chunk of both ranks
        model = Pairs(chunk_size=4)
        chunks = [videos[:, :2].flatten(0, 1), videos[:, 2:].flatten(0, 1)]
        expected = model.step(model, torch.cat(chunks))
    ranks = run_ranks(rank_step, 2, tmp_path, videos, frozen)
    for results in ranks:
        torch.testing.assert_close(results, expected, rtol=1e-6, atol=1e-12)
    for name in ('encoder.1.running_mean', 'encoder.1.running_var'):
        assert torch.equal(ranks[0][name], ranks[1][name])
        assert torch.equal(ranks[0][name], network()[1].state_dict()[name[10:]]) == frozen
