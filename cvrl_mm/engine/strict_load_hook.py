"""No test of a network that is partly random."""

from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from cvrl_mm.models.pretrained import check_fit


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Refuse to test with a checkpoint that does not hold exactly the network.

    mmengine loads what fits and says so in the log. Training may start from a part.

    Raises:
        CheckpointMisfitError: see :func:`cvrl_mm.models.pretrained.check_fit`.
    """

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare before the weights are put in their places."""
        if isinstance(runner._train_loop, BaseLoop):
            return
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        check_fit(model, checkpoint, str(runner._load_from))
