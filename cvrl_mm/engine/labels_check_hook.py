"""Check the labels of the videos before a classifier is trained or tested."""

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from ..datasets.lists import check_labels
from .unwrapped_model import unwrapped_model


@HOOKS.register_module()
class LabelsCheckHook(Hook):
    """Check before a run that every video has a label that the classifier knows.

    MMAction2 stops at a wrong label of the training list with an error of torch that names neither
    list nor video, and counts one of a test list as a wrong prediction. The lists of a
    ``VideoListDataset`` are checked if the model's head has ``num_classes``.
    """

    def before_run(self, runner: Runner) -> None:
        """Check the lists from which this run reads.

        Raises:
            ValueError: A label is missing or out of range; the message names the list and the line.
        """
        head = getattr(unwrapped_model(runner), 'cls_head', None)
        num_classes = getattr(head, 'num_classes', None)
        if num_classes is None:
            return
        for split in ('train', 'val', 'test'):
            if isinstance(getattr(runner, f'_{split}_loop'), BaseLoop):  # else it was not built
                dataset = runner.cfg[f'{split}_dataloader'].dataset
                if dataset.get('type') == 'VideoListDataset':
                    check_labels(dataset, num_classes)
