"""Comparison of the classifier with the backbone before a run."""

from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from cvrl_mm.models.head_channels import check_head_channels


@HOOKS.register_module()
class HeadChannelsHook(Hook):
    """Refuse a head whose ``in_channels`` are not the channels of the backbone's features.

    Recognizers of MMAction2 build both without comparing them, and the first step fails in a
    matrix product. :class:`CVRL` compares them itself.
    """

    def before_run(self, runner: Runner) -> None:
        """Compare the backbone and the head of a recognizer.

        Raises:
            ValueError: The head takes features of another width.
        """
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        in_channels = getattr(getattr(model, 'cls_head', None), 'in_channels', None)
        if in_channels is not None and not model.with_neck:
            check_head_channels(model.backbone, in_channels)
