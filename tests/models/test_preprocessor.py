import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample

IMAGENET = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
UNIT = dict(mean=[0.0] * 3, std=[255.0] * 3)


def preprocessors(**kwargs: object):
    kwargs = dict(format_shape='NCTHW') | kwargs
    names = ('ClipDataPreprocessor', 'ActionDataPreprocessor')
    return [MODELS.build(dict(type=name, **kwargs)) for name in names]


def batch() -> dict:
    inputs = torch.randint(256, (3, 2, 3, 2, 4, 4), dtype=torch.uint8)
    return dict(inputs=inputs, data_samples=[ActionDataSample() for _ in inputs])


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize(
    'kwargs', [UNIT, IMAGENET, dict(IMAGENET, to_rgb=True), {}], ids=['unit', 'mean', 'rgb', 'none']
)
def test_gives_the_stock_values_for_stacked_and_listed_inputs(kwargs: dict, training: bool):
    ours, stock = preprocessors(**kwargs)
    data = batch()
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
    data = batch()
    with torch.autocast('cpu', torch.bfloat16):
        out = ours(data, training=True)['inputs']
    expected = stock(dict(data, inputs=list(data['inputs'])), training=True)['inputs']
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, expected.to(torch.bfloat16))


def test_blends_in_training_alone():
    blending = dict(type='MixupBlending', num_classes=4)
    ours, stock = preprocessors(**UNIT, blending=blending)
    data = batch()
    for sample in data['data_samples']:
        sample.set_gt_label(1)
    torch.manual_seed(0)
    out = ours(data, training=True)
    torch.manual_seed(0)
    expected = stock(dict(data, inputs=list(data['inputs'])), training=True)
    assert torch.equal(out['inputs'], expected['inputs'])
    assert not torch.equal(ours(data)['inputs'], expected['inputs'])


def test_in_chunks_a_training_batch_stays_uint8():
    ours, stock = preprocessors(**IMAGENET)
    ours.in_chunks = True
    data = batch()
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
