"""Check the batches before a contrastive training starts."""

from mmengine.dist import all_gather_object, get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from .unwrapped_model import unwrapped_model


@HOOKS.register_module()
class NegativesCheckHook(Hook):
    """Check before training that an epoch is not empty and that all batches have negatives.

    If the batches of all ranks always have the same size, the hook sets ``equal_batches`` of the
    head, so that the ranks do not exchange the sizes in each step.
    """

    def before_train(self, runner: Runner) -> None:
        """Check the training loader.

        Raises:
            ValueError: An epoch has no steps, or a batch has a single video.
        """
        loader, ranks = runner.train_dataloader, get_world_size()
        videos, batch = len(loader.dataset), loader.batch_size * ranks
        if len(loader) == 0:
            raise ValueError(
                f'The training list holds {videos} videos, fewer than one batch of '
                f'{batch} ({ranks} x {loader.batch_size}), and short batches are dropped; '
                'lower train_dataloader.batch_size or give more videos.'
            )
        if batch < 2:
            raise ValueError(
                'A batch of one video has no negatives to contrast with; '
                'set train_dataloader.batch_size to 2 or more.'
            )
        last = len(loader.sampler) % loader.batch_size * ranks
        if last == 1 and not loader.drop_last:
            raise ValueError(
                f'{videos} videos in batches of {batch} leave a last batch of one, which has '
                'no negatives; set train_dataloader.drop_last=True.'
            )
        sizes = all_gather_object((loader.batch_size, loader.drop_last))
        head = getattr(unwrapped_model(runner), 'cls_head', None)
        if head is not None and hasattr(head, 'equal_batches'):
            head.equal_batches = len(set(sizes)) == 1 and loader.drop_last
