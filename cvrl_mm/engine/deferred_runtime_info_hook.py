"""Log the outputs of a step without waiting for the device."""

from mmengine.hooks import RuntimeInfoHook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from .deferred_scalars import log_scalar


@HOOKS.register_module()
class DeferredRuntimeInfoHook(RuntimeInfoHook):
    """A ``RuntimeInfoHook`` that reads the outputs of a step only when they are logged.

    mmengine's ``RuntimeInfoHook`` reads each output in each step, and each read makes the host wait
    until the device has computed the value.
    """

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Update the histories of the outputs."""
        for name, value in (outputs or {}).items():
            if isinstance(value, Tensor):
                log_scalar(runner.message_hub, f'train/{name}', value)
            else:
                runner.message_hub.update_scalar(f'train/{name}', value)
