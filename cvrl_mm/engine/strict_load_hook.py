"""Strict loading of checkpoints for testing."""

from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from cvrl_mm.models.pretrained import check_fit
from cvrl_mm.weights_only import refuse_foreign_code


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Refuse to test with a checkpoint whose weights are not exactly those of the network.

    mmengine loads the matching entries, logs the others and tests a network that is partly random.
    Training may start from some of the weights and is not affected. The hook
    also makes its run load weights only (:mod:`cvrl_mm.weights_only`).

    Raises:
        CheckpointMisfitError: see :func:`cvrl_mm.models.pretrained.check_fit`.
    """

    def __init__(self) -> None:
        refuse_foreign_code()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare names and shapes before the weights are loaded."""
        if isinstance(runner._train_loop, BaseLoop):
            return
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        check_fit(model, checkpoint, str(runner._load_from))
