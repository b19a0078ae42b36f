"""Measure the quality of the representation during pre-training."""

from typing import Any

import torch
from mmaction.models import BaseRecognizer
from mmengine.dist import all_gather_object, get_rank, get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.optim.scheduler.param_scheduler import LinearParamScheduler
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from ..encoder.encoder import Encoder
from ..evaluation.clips import ListClips
from ..evaluation.features import Features, extract, join_features
from ..evaluation.measures import clip_retrieval, measure
from .checkpoint import unwrapped_model
from .loops import outlive_signals

MIN_VIDEOS, MIN_TO_WARN = 3, 20  # fewer videos do not show a collapse
MIN_STD = 0.1  # of the embedding; 1 if it is spread evenly
MIN_RANK_SHARE = 0.02  # of the possible directions
TIMES_CHANCE = 5  # an embedding that finds more of the other clips has not collapsed


@HOOKS.register_module()
class KNNMonitorHook(Hook):
    """Measure a CVRL model on a small list of videos at regular intervals.

    Measures without labels: ``clip_retrieval`` is the share of videos for which the first clip is
    the nearest neighbour of the last clip. ``feature_…`` (output of the backbone) and
    ``embedding_…`` (output of the projection) show a collapse; they use one clip per video.

    Measures with labels: ``knn_top1`` is the accuracy of a weighted vote of the k nearest other
    videos, where k is half the size of the smallest class and at most 20. ``R@k`` is the share of
    videos with a video of the same class among the k nearest neighbours. Both use backbone
    features, averaged over the clips of a video, and the classes that have at least two videos in
    the list. They are omitted if there are fewer than two such classes.

    A warning says that the embedding collapses, if two measurements in a row after the warm-up of
    the learning rate show it: it is narrow, and does not find the other clip of a video. At the
    start of a normal training it can be as narrow for a while. Fewer than 20 videos do not show a
    collapse.

    Videos that cannot be read are left out of all measures, with one warning. There is no
    measurement with fewer than three readable videos.

    All measures are logged and passed to the visualizer's backends as ``representation/…``.

    The training is the same as without this hook: its measurements change no weight and no
    statistic of batch norm, and the seeded loops seed the draws of each step (:mod:`.loops`).

    Args:
        dataloader: Config of a loader of two clips per video, as
            ``EvenClipSample(num_clips=2)`` gives them. It needs no sampler and no ``collate_fn``.
        interval: Number of epochs, or of steps if ``by_epoch`` is False, between two
            measurements. The end of the training is always measured.
        by_epoch: Count epochs; set it to False with an ``IterBasedTrainLoop``.
    """

    def __init__(self, dataloader: dict, interval: int = 10, by_epoch: bool = True) -> None:
        self.dataloader = dataloader
        self.interval = interval
        self.by_epoch = by_epoch
        self.warned = False
        self.narrow = 0  # measurements in a row that show a collapse
        self._reported: set[int] = set()  # unreadable videos

    def before_train(self, runner: Runner) -> None:
        """Build the loader.

        Raises:
            ValueError: The list is too short.
        """
        self.videos = ListClips(self.dataloader['dataset'])
        if len(self.videos) < MIN_VIDEOS:
            raise ValueError(
                f'The list of KNNMonitorHook has {len(self.videos)} videos; it needs at least '
                f'{MIN_VIDEOS}.'
            )
        share = range(get_rank(), len(self.videos), get_world_size())
        how = dict(dataset=self.videos, sampler=share, collate_fn=list)
        self.loader = runner.build_dataloader({**self.dataloader, **how})
        outlive_signals(self.loader)

    def after_train_epoch(self, runner: Runner) -> None:
        """Measure after every ``interval`` epochs and after the last one."""
        if self.by_epoch and (
            self.every_n_epochs(runner, self.interval) or self.is_last_train_epoch(runner)
        ):
            self._measure(runner, runner.epoch + 1, 'epoch')

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Measure after every ``interval`` steps and after the last one."""
        if not self.by_epoch and (
            self.every_n_train_iters(runner, self.interval) or self.is_last_train_iter(runner)
        ):
            self._measure(runner, runner.iter + 1, 'step')

    @torch.no_grad()
    def represent(self, model: BaseRecognizer) -> tuple[Features, Tensor]:
        """Encode the videos of the list; each rank encodes its share, and all get all features.

        Args:
            model: A CVRL model in evaluation mode.

        Returns:
            Features, (N, 2, C) of the N videos that can be read, and embeddings, (N, 2, D).
        """
        share = join_features(extract(Encoder.of(model).features, self.loader, check=False))
        found = join_features(all_gather_object(share))
        if not len(found.feats):
            return found, found.feats
        feats = found.feats.to(next(model.parameters()).device).flatten(0, 1)
        return found, model.cls_head(feats).float().unflatten(0, (-1, 2)).cpu()

    def _measure(self, runner: Runner, count: int, unit: str) -> None:
        model = unwrapped_model(runner)
        model.eval()
        found, z = self.represent(model)
        model.train()
        if not is_main_process():
            return
        if found.errors.keys() - self._reported:
            index, reason = next(iter(found.errors.items()))
            runner.logger.warning(
                f'{len(found.errors)} of the {len(found)} videos in the list of KNNMonitorHook '
                f'cannot be read and are left out, such as {self.videos.path(index)}: {reason}'
            )
            self._reported |= found.errors.keys()
        if len(z) < MIN_VIDEOS:
            return
        scalars = measure(found.feats, z, found.labels)
        text = '  '.join(f'{name}: {value:.4f}' for name, value in scalars.items())
        runner.logger.info(f'Representation after {unit} {count}: {text}')
        runner.visualizer.add_scalars(
            {f'representation/{name}': value for name, value in scalars.items()}, step=count
        )
        std, rank = scalars['embedding_std'], scalars['embedding_rank']
        directions = min(len(z) - 1, z.shape[-1])
        if self.warned or len(z) < MIN_TO_WARN or is_warming_up(runner):
            return
        is_wide = std >= MIN_STD and rank >= max(2, MIN_RANK_SHARE * directions)  # not if NaN
        finds_pairs = clip_retrieval(z[:, 1], z[:, 0]) > TIMES_CHANCE / len(z)
        self.narrow = 0 if is_wide or finds_pairs else self.narrow + 1
        if self.narrow > 1:
            self.warned = True
            runner.logger.warning(
                f'The embedding collapses: after {unit} {count} its standard deviation is '
                f'{std:.3g} (1 if it is spread evenly) and its effective rank {rank:.3g} of '
                f'{directions}. Check the learning rate and the loss curve (NaN, or constant at '
                '2 ln(2N - 1) for N videos per step), sync_bn over all ranks, the temperature, and '
                'that the two clips of a video are augmented independently.'
            )


def is_warming_up(runner: Runner) -> bool:
    """Return whether a linear schedule, as of a warm-up, has not reached its end."""
    schedulers: Any = runner.param_schedulers or []
    return any(
        isinstance(each, LinearParamScheduler) and each.last_step < each.end - each.begin - 1
        for each in schedulers
    )
