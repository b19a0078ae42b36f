"""Log the regularisation loss."""

from collections import defaultdict

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from .deferred_scalars import log_scalar


@HOOKS.register_module()
class RegularizationLossHook(Hook):
    """Log the contribution of weight decay to the objective (CVRL, Figure 5).

    ``regularization_loss`` is half the weight decay times the squared norm of the decayed
    parameters. It is only logged; the optimiser applies the weight decay.
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
        total = torch.stack(penalties).sum() if penalties else torch.zeros(())
        log_scalar(runner.message_hub, 'train/regularization_loss', total)
