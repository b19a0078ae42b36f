from types import SimpleNamespace

from mmengine.model import MMDistributedDataParallel
from torch import nn

from cvrl_mm.engine.unwrapped_model import unwrapped_model


def test_the_model_of_a_wrapper_is_returned():
    model = nn.Linear(2, 3)
    wrapper = MMDistributedDataParallel.__new__(MMDistributedDataParallel)  # without ranks
    nn.Module.__init__(wrapper)
    wrapper.module = model
    for outer in (model, wrapper):
        assert unwrapped_model(SimpleNamespace(model=outer)) is model
