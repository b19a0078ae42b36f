"""A look at the batches before a contrastive run starts."""

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner


@HOOKS.register_module()
class NegativesCheckHook(Hook):
    """Refuse, before training, batches that hold no negatives or no batch at all."""

    def before_train(self, runner: Runner) -> None:
        """Look at the train loader.

        Raises:
            ValueError: an epoch has no step, or one with a single video.
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
