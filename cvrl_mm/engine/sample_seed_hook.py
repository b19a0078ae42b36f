"""The same run twice is the same run."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from mmengine.dataset import InfiniteSampler
from mmengine.dist import broadcast_object_list, get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner
from mmengine.runner.loops import _InfiniteDataloaderIterator

from cvrl_mm.datasets.sample_index import seed_generators
from cvrl_mm.datasets.seeded_sampler import SeededSampler

MODEL = 1000  # in the place where a sample's key has the number of the attempt, at most 20


@HOOKS.register_module()
class SampleSeedHook(Hook):
    """Make all draws functions of the seed and of what they are for.

    A sample's draws depend on (seed, epoch, index), the model's, such as dropout, on (seed,
    rank, step): not on the number of workers, their persistence or a restart. Samples need a
    dataset that knows :class:`SampleIndex`, as ``VideoListDataset`` does; other datasets take it
    for an ordinary index and draw as they used to.

    A resumed ``IterBasedTrainLoop`` goes on with the next batch; left alone, mmengine loads and
    drops every batch of the steps it has already made.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        """Put the seeded sampler in place.

        Raises:
            ValueError: the loader draws no batches from a sampler, or the run that is resumed had
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
        if asked not in (None, self.seed):  # mmengine takes the checkpoint's, after the samplers
            raise ValueError(
                f'The run to resume had the seed {self.seed}, this one is given {asked}; '
                f'go on with --cfg-options randomness.seed={self.seed}.'
            )
        self.sampler = SeededSampler(loader.batch_sampler.sampler, self.seed)
        loader.batch_sampler.sampler = self.sampler
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            runner.train_loop.dataloader_iterator = self._batches(loader, runner.iter)

    # Any: torch's types hide what the samplers of a DataLoader have of their own
    def _batches(self, loader: Any, steps: int) -> Iterator[list | dict | None]:
        """Yield nothing for the steps already made, which the loop asks for, then batches."""
        yield from repeat(None, steps)
        batches_in_epoch, epoch = steps, 0
        if not isinstance(loader.sampler, InfiniteSampler):
            epoch, batches_in_epoch = divmod(steps, len(loader))
            loader.sampler.set_epoch(epoch)
        self.sampler.skip(batches_in_epoch * loader.batch_sampler.batch_size)
        batches = _InfiniteDataloaderIterator(loader)
        batches._epoch = epoch
        yield from batches

    def before_train_epoch(self, runner: Runner) -> None:
        """Pass on the epoch, for samplers that do not count epochs."""
        self.sampler.epoch = runner.epoch

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: dict | None = None
    ) -> None:
        """Seed what the model draws in this step."""
        seed_generators(self.seed, get_rank(), runner.iter, MODEL)
