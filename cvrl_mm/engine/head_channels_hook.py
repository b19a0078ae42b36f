"""Compare the classifier with the backbone before a run."""

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..models.heads import check_head_channels
from .unwrapped_model import unwrapped_model


@HOOKS.register_module()
class HeadChannelsHook(Hook):
    """Check that ``in_channels`` of the head matches the features of the backbone.

    Recognizers of MMAction2 do not compare them, and the first step fails in a matrix product.
    :class:`CVRL` has its own check.
    """

    def before_run(self, runner: Runner) -> None:
        """Compare the backbone and the head of a recognizer.

        Raises:
            ValueError: The numbers of channels differ.
        """
        model = unwrapped_model(runner)
        in_channels = getattr(getattr(model, 'cls_head', None), 'in_channels', None)
        if in_channels is not None and not model.with_neck:
            check_head_channels(model.backbone, in_channels)
