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

    bfloat16 has the range of float32 and needs no loss scaling. mmengine's ``AmpOptimWrapper``
    always uses a loss scaler and does not support CPUs. On CPUs, oneDNN 3.12 (in torch 2.13)
    computes some 3D convolutions in bfloat16 incorrectly. Without AMX these are the gradients of
    kernels that are longer than the clip (3 over 2 frames, 5 over 4), and of strides over a single
    pixel, which also write outside their memory. With AMX they are outputs of a width of one pixel
    (pytorch/pytorch#169688).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast; gradient accumulation is that of ``OptimWrapper``."""
        enabled = get_device() != 'cpu'
        with super().optim_context(model), autocast(dtype=torch.bfloat16, enabled=enabled):
            yield
