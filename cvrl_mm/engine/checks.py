"""Checks at the start of a run, before time is lost."""

from typing import Any

from mmengine.config import Config
from mmengine.dataset import InfiniteSampler
from mmengine.dist import all_gather_object, get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from ..datasets.lists import check_labels, check_numbering
from ..models.heads import check_head_channels
from ..text import type_name
from .checkpoint import unwrapped_model


@HOOKS.register_module()
class ChecksHook(Hook):
    """Check the videos, labels, batches and learning rate of a run before its first step.

    - ``in_channels`` of the head matches the features of the backbone, which recognizers of
      MMAction2 do not compare.
    - If the head has ``num_classes``, every video in the lists of a ``VideoListDataset`` has a
      label of one of them. MMAction2 counts a wrong label of a test list as a wrong prediction. The
      lists number the classes alike, as far as a ``classes.txt`` beside each says it.
    - Each batch of a contrastive head has negatives. If all batches of all ranks have the same
      size, the hook sets ``equal_batches`` of the head, so that the ranks do not exchange the sizes
      in each step.
    - The learning rate is for the number of videos per step; if not, a warning says what to set.
    """

    def before_run(self, runner: Runner) -> None:
        """Check the head and the lists.

        Raises:
            ValueError: The channels differ, a label is missing or out of range, or two lists
                number the classes differently.
        """
        model = unwrapped_model(runner)
        head: Any = getattr(model, 'cls_head', None)
        channels, num_classes = (getattr(head, x, None) for x in ('in_channels', 'num_classes'))
        if channels is not None and not getattr(model, 'with_neck', False):
            check_head_channels(model.backbone, channels)
        if num_classes is None:  # also of MMAction2's FeatureHead
            return
        lists = []
        for split in ('train', 'val', 'test'):
            dataset = (runner.cfg.get(f'{split}_dataloader') or {}).get('dataset', {})
            is_used = isinstance(getattr(runner, f'_{split}_loop'), BaseLoop)
            if type_name(dataset) == 'VideoListDataset' and (is_used or split == 'train'):
                if is_used:
                    check_labels(dataset, num_classes)
                lists.append(dataset.ann_file)
        check_numbering(*lists)

    def before_train(self, runner: Runner) -> None:
        """Check the batches and the learning rate.

        Raises:
            ValueError: A batch has no negatives.
        """
        loader, ranks = runner.train_dataloader, get_world_size()
        if advice := rate_advice(runner.cfg, ranks):
            runner.logger.warning(f'The learning rate: {advice}.')
        videos, batches = len(loader.dataset), loader.batch_sampler
        size = batches.batch_size * ranks
        head: Any = getattr(unwrapped_model(runner), 'cls_head', None)
        if not hasattr(head, 'equal_batches'):
            return
        # Batches of an InfiniteSampler go on from one pass over the videos to the next
        all_equal = batches.drop_last or isinstance(batches.sampler, InfiniteSampler)
        last = 0 if all_equal else len(batches.sampler) % batches.batch_size * ranks
        if 1 in (size, last):
            raise ValueError(
                f'{videos} videos in batches of {size} give a batch of one video, which has no '
                'negatives; set train_dataloader.batch_size to 2 or more and drop_last=True.'
            )
        sizes = all_gather_object((batches.batch_size, all_equal))
        head.equal_batches = len(set(sizes)) == 1 and all_equal


def rate_advice(config: Config, ranks: int) -> str:
    """Say what to change if the learning rate of a config is for other numbers of videos per step.

    Args:
        config: A training config with ``auto_scale_lr.base_batch_size``, the number of videos of
            its learning rate; without one, nothing is compared.
        ranks: Number of processes.

    Returns:
        A text, or '' if the numbers are equal or mmengine scales the learning rate.
    """
    lr = (config.get('optim_wrapper', {}).get('optimizer') or {}).get('lr')
    scaling = config.get('auto_scale_lr') or {}
    base = scaling.get('base_batch_size')
    if lr is None or not base:
        return ''
    steps = config.optim_wrapper.get('accumulative_counts', 1)
    batch = ranks * config.train_dataloader.batch_size * steps
    is_scaled = bool(scaling.get('enable'))
    if (is_scaled and steps == 1) or (not is_scaled and batch == base):
        return ''
    return (
        f'{lr:g} is for {base} videos per step (auto_scale_lr.base_batch_size), and this training '
        f'has {batch}; set optim_wrapper.optimizer.lr={lr * batch / base:g} and '
        f'auto_scale_lr.base_batch_size={batch}, or, unless batches are accumulated, train with '
        '--auto-scale-lr'
    )
