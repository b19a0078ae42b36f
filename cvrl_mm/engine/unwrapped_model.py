"""Access to the model of a runner."""

from typing import Any

from mmengine.model import is_model_wrapper
from mmengine.runner import Runner


def unwrapped_model(runner: Runner) -> Any:
    """Return the model of a runner without the wrapper for distributed training."""
    return runner.model.module if is_model_wrapper(runner.model) else runner.model
