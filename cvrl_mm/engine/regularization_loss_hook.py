"""The regularisation loss among the logged curves."""

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner


@HOOKS.register_module()
class RegularizationLossHook(Hook):
    """Log what the weight decay adds to the objective (CVRL, Figure 5).

    That is half the weight decay times the squared norm of what it decays, as
    ``regularization_loss``. The optimiser applies the decay itself; nothing is added to the
    loss that is differentiated.
    """

    @torch.no_grad()
    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Update the scalar that the logger shows."""
        penalties = []
        for group in runner.optim_wrapper.optimizer.param_groups:
            if group['weight_decay'] > 0:
                norms = torch.stack(torch._foreach_norm(group['params']))
                penalties.append(group['weight_decay'] / 2 * norms.square().sum())
        total = torch.stack(penalties).sum().item() if penalties else 0.0
        runner.message_hub.update_scalar('train/regularization_loss', total)
