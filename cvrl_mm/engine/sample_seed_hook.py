"""Deterministic seeding per sample and step."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from mmengine.dataset import InfiniteSampler
from mmengine.dist import broadcast_object_list, get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner

from cvrl_mm.datasets.continuous_loader import ContinuousLoader, continuous_batches
from cvrl_mm.datasets.sample_index import seed_generators
from cvrl_mm.datasets.seeded_sampler import SeededSampler
from cvrl_mm.datasets.stack_collate import forget_ended_workers

from .lazy_loader import open_loaders_at_the_first_step

MODEL = 1000  # last number of the key for the model; the keys of samples have 0 to 20 there


@HOOKS.register_module()
class SampleSeedHook(Hook):
    """Make random draws independent of workers and restarts.

    The draws of a sample depend on (seed, epoch, index). The draws of the model, such as dropout,
    depend on (seed, rank, step). The dataset must support :class:`SampleIndex`, like
    ``VideoListDataset``. Other datasets use it like an ordinary index, and their draws are not
    changed.

    Because the draws do not depend on the process, the workers can load the next epoch in advance
    (:class:`ContinuousLoader`); ``persistent_workers`` has no effect. A resumed
    ``IterBasedTrainLoop`` continues with the next batch, whereas mmengine loads and drops the
    batches of all earlier steps. An ``EpochBasedTrainLoop`` continues within the epoch after
    :class:`PreemptionHook`. If the number of steps per epoch has changed, for example with the
    number of GPUs, its epochs are kept and the steps are counted anew.
    """

    priority = 'VERY_HIGH'
    _meta: dict = {}  # meta of the checkpoint from which the run is resumed

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the position within an epoch at which :class:`PreemptionHook` has saved."""
        self._meta = checkpoint['meta'] if runner._resume else {}

    def __init__(self) -> None:
        open_loaders_at_the_first_step()  # the loop is built before ``before_train``

    def before_train(self, runner: Runner) -> None:
        """Install the seeded sampler and the continuous loader.

        Raises:
            ValueError: The loader has no batch sampler over a sampler, or the run to resume had
                another seed.
        """
        loader = runner.train_dataloader
        if not hasattr(loader.batch_sampler, 'sampler'):
            raise ValueError(
                f'SampleSeedHook needs a loader with a batch sampler over a sampler, got '
                f'{loader.batch_sampler}; set train_dataloader.batch_size and .sampler.'
            )
        seeds = [runner.seed]
        broadcast_object_list(seeds)  # diff_rank_seed adds the rank
        self.seed = seeds[0]
        asked = runner.cfg.get('randomness', {}).get('seed')
        if asked not in (None, self.seed):  # mmengine restores the seed after building samplers
            raise ValueError(
                f'The run to resume had the seed {self.seed}, this one is given {asked}; '
                f'continue with --cfg-options randomness.seed={self.seed}.'
            )
        sampler = loader.batch_sampler.sampler
        if asked is None and hasattr(sampler, 'seed'):
            sampler.seed = self.seed  # mmengine draws another one for the sampler at each start
        self.sampler = SeededSampler(sampler, self.seed)
        loader.batch_sampler.sampler = self.sampler
        loop = runner.train_loop
        if isinstance(loop, IterBasedTrainLoop):
            loop.dataloader_iterator = self._batches(loader, loop.iter, loop.max_iters)
        elif isinstance(loop, EpochBasedTrainLoop):
            loop.dataloader = ContinuousLoader(loader, loop.max_epochs)
            # The share of the epoch is kept if the number of steps per epoch has changed
            share = self._meta.get('steps_in_epoch', 0) / self._meta.get('steps_per_epoch', 1)
            self._skip = round(share * len(loader))
            step = loop.epoch * len(loader) + self._skip
            if loop.iter != step:
                loop._iter = step
                runner.optim_wrapper.initialize_count_status(runner.model, step, loop.max_iters)

    # Any: torch's types do not include the additional methods of the samplers
    def _batches(self, loader: Any, step: int, max_steps: int) -> Iterator[list | dict | None]:
        """Yield None for earlier steps, whose batches the loop drops, and then batches."""
        yield from repeat(None, step)
        batches_in_epoch, epoch = step, 0
        if not isinstance(loader.sampler, InfiniteSampler):
            epoch, batches_in_epoch = divmod(step, len(loader))
        self.sampler.skip(batches_in_epoch * loader.batch_sampler.batch_size)
        yield from continuous_batches(loader, epoch, max_steps - step)

    def before_train_epoch(self, runner: Runner) -> None:
        """Set the epoch of the sampler and the loader."""
        self.sampler.epoch = runner.epoch
        if isinstance(runner.train_dataloader, ContinuousLoader):
            runner.train_dataloader.start_epoch(runner.epoch, self._skip)
            self._skip = 0

    def after_train(self, runner: Runner) -> None:
        """End the workers and unmap their memory."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            runner.train_loop.dataloader_iterator = iter(())
        forget_ended_workers()

    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Seed the draws of the model in this step."""
        seed_generators(self.seed, get_rank(), runner.iter, MODEL)
