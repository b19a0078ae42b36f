import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample

from cvrl_mm.models.deferred_preprocessor import DeferredPreprocessor

PIXELS = dict(mean=[114.75] * 3, std=[57.375] * 3, format_shape='NCTHW')


@pytest.mark.parametrize('name', ['ClipDataPreprocessor', 'ActionDataPreprocessor'])
def test_normalises_at_once_in_tests_and_by_finish_in_training(name: str):
    wrapped = dict(type=name, **PIXELS)
    deferred, plain = DeferredPreprocessor(wrapped), MODELS.build(wrapped)
    videos = torch.randint(256, (3, 2, 3, 2, 4, 4), dtype=torch.uint8)
    data = dict(inputs=list(videos), data_samples=[ActionDataSample() for _ in videos])
    expected = plain(dict(data))['inputs']
    assert torch.equal(deferred(dict(data))['inputs'], expected)
    waiting = deferred(dict(data), training=True)['inputs']
    assert torch.equal(waiting, videos)  # still uint8
    assert torch.equal(deferred.finish(waiting[1:]), expected[1:])
