"""Access to the model of a runner."""

from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from torch import nn


def unwrapped_model(runner: Runner) -> nn.Module:
    """Return the model of a runner without the wrapper for distributed training."""
    return runner.model.module if is_model_wrapper(runner.model) else runner.model
