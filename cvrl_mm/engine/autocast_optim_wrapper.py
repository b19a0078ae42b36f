"""Mixed precision without a loss scaler."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from mmengine.registry import OPTIM_WRAPPERS
from mmengine.runner.amp import autocast
from torch import nn


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Run forward passes under bfloat16 autocast on an accelerator, in float32 on a CPU.

    bfloat16 has float32's range and needs no loss scaling; mmengine's ``AmpOptimWrapper``
    always brings a scaler and refuses to work on a CPU. There oneDNN 3.12, which comes with
    torch 2.13, gets some 3D convolutions in bfloat16 wrong: without AMX the gradients of kernels
    over few frames (3 of 2, 5 of 4), and those of a stride over a single pixel, which also write
    past their memory; with AMX outputs one pixel wide (pytorch/pytorch#169688).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Cast within; gradient accumulation stays ``OptimWrapper``'s."""
        enabled = get_device() != 'cpu'
        with super().optim_context(model), autocast(dtype=torch.bfloat16, enabled=enabled):
            yield
