"""Mixed precision without a loss scaler."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.optim import OptimWrapper
from mmengine.registry import OPTIM_WRAPPERS
from mmengine.runner.amp import autocast
from torch import nn


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Run forward passes under bfloat16 autocast, on any device.

    bfloat16 has float32's range and needs no loss scaling; mmengine's ``AmpOptimWrapper``
    always brings a scaler and refuses to work on a CPU.
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Cast within; gradient accumulation stays ``OptimWrapper``'s."""
        with super().optim_context(model), autocast(dtype=torch.bfloat16):
            yield
