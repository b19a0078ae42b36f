"""Checkpoints that describe their network, and tests that load all of it."""

from mmengine.config import ConfigDict
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from ..models.weights import check_fit, refuse_foreign_code


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Refuse to test or resume with weights that are not exactly those of the network.

    mmengine loads the matching entries, logs the others, and tests or continues to train a network
    that is partly random. A new training may start from some of the weights. Saved checkpoints get
    the settings of the backbone in ``meta['backbone']``, because weights do not tell with which
    padding they were trained. The hook also makes its run load weights only
    (:mod:`cvrl_mm.models.weights`).

    Raises:
        CheckpointMisfitError: See :func:`cvrl_mm.models.weights.check_fit`.
    """

    def __init__(self) -> None:
        refuse_foreign_code()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the settings of the backbone."""
        model = runner.cfg.get('model')
        backbone = model.get('backbone') if isinstance(model, dict) else None
        if isinstance(backbone, ConfigDict) and 'type' in backbone:
            checkpoint['meta'].setdefault('backbone', backbone.to_dict())

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare names and shapes before the weights are loaded."""
        if isinstance(runner._train_loop, BaseLoop) and not runner._resume:
            return
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        check_fit(model, checkpoint, str(runner._load_from or 'The checkpoint'))
