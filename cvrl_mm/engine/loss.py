"""The loss: mixed precision, a stop if it is not finite, and a log of weight decay."""

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from mmengine.registry import HOOKS, OPTIM_WRAPPERS
from mmengine.runner import Runner
from mmengine.runner.amp import autocast
from torch import Tensor, nn

from .bad_videos import samples_of


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
        """Enable autocast; gradients are accumulated as in ``OptimWrapper``."""
        enabled = get_device() != 'cpu'
        with super().optim_context(model), autocast(dtype=torch.bfloat16, enabled=enabled):
            yield


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at a loss that is NaN or infinite, with an error that names the step and its files."""

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: dict | None, outputs: dict
    ) -> None:
        """Check the loss of the step, before a checkpoint is saved.

        Raises:
            FloatingPointError: The loss is not finite.
        """
        loss = float(outputs['loss'].detach())
        if not math.isfinite(loss):
            rates = {lr for rates in runner.optim_wrapper.get_lr().values() for lr in rates}
            files = [str(sample.get('filename')) for sample in samples_of(data_batch)]
            raise FloatingPointError(
                f'The loss of step {runner.iter + 1} is {loss} at a learning rate of '
                f'{max(rates):.6g}. Lower the learning rate, or inspect the files of the batch: '
                f'{", ".join(files)}.'
            )


@HOOKS.register_module()
class RegularizationLossHook(Hook):
    """Log the contribution of weight decay to the objective (CVRL, Figure 5).

    ``regularization_loss`` is half the weight decay times the squared norm of the decayed
    parameters. It is only logged, and only if there are some; the optimiser applies the decay.
    """

    @torch.no_grad()
    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Update the logged scalar."""
        # Groups with the same decay are merged: mmengine may make one group per parameter
        decayed: dict[float, list[Tensor]] = defaultdict(list)
        for group in runner.optim_wrapper.optimizer.param_groups:
            decayed[group['weight_decay']] += group['params']
        penalties = [
            decay / 2 * torch.stack(torch._foreach_norm(parameters)).square().sum()
            for decay, parameters in decayed.items()
            if decay > 0
        ]
        if penalties:
            total = torch.stack(penalties).sum()
            runner.message_hub.update_scalar('train/regularization_loss', total)
