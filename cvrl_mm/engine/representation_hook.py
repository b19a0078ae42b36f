"""A look at what pre-training has learnt, while it runs."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from mmaction.models import BaseRecognizer
from mmengine.dist import collect_results
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn

from ..evaluation.collapse import alignment, effective_rank, mean_std, uniformity
from ..evaluation.features import clip_features
from ..evaluation.nearest_neighbours import leave_one_out, vote

NUM_NEIGHBOURS = 20  # that vote
RECALLS = (1, 5, 10)
MIN_STD = 0.1  # of the embedding; 1 where it is spread evenly
MIN_RANK_SHARE = 0.02  # of the directions there are


@HOOKS.register_module()
class RepresentationHook(Hook):
    """Report every few epochs how well a CVRL model tells a small labelled list apart.

    Each video is looked for among the others of the list: ``knn_top1`` is the accuracy of the
    weighted vote of its neighbours, ``R@k`` says whether its class is among the k nearest. Both
    compare backbone features, averaged over a video's clips. ``feature_…`` and ``embedding_…``
    are the signs of collapse, of the backbone and of the projection's output, one clip a video.
    All go to the log and to the visualizer's backends as ``representation/…``.

    Weights, batch-norm statistics, modes and random states are afterwards as they were.

    Args:
        dataloader: Config of a loader of labelled videos with two clips each, such as
            ``EvenClipSample(num_clips=2)`` gives them, and a sampler without shuffling.
        interval: Epochs between two looks; the last epoch is always looked at.

    Raises:
        ValueError: ``interval`` is below 1.
    """

    def __init__(self, dataloader: dict, interval: int = 10) -> None:
        if interval < 1:
            raise ValueError(f'interval counts epochs and must be at least 1, got {interval}.')
        self.dataloader = dataloader
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Build the loader.

        Raises:
            ValueError: the list is too short to have neighbours, or lacks labels.
        """
        with untouched_state(runner.model):
            self.loader = runner.build_dataloader(self.dataloader)
        dataset = self.loader.dataset
        videos = len(dataset)
        if any(dataset.get_data_info(i)['label'] < 0 for i in range(videos)):
            raise ValueError('The list of RepresentationHook has videos without a label.')
        if videos <= NUM_NEIGHBOURS:
            raise ValueError(
                f'The list of RepresentationHook holds {videos} videos; {NUM_NEIGHBOURS} '
                f'neighbours vote, so give it more than {NUM_NEIGHBOURS}.'
            )

    def after_train_epoch(self, runner: Runner) -> None:
        """Look, where it is time to."""
        if not (self.every_n_epochs(runner, self.interval) or self.is_last_train_epoch(runner)):
            return
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        with untouched_state(model):
            model.eval()
            results = self.represent(model)
        if results is not None:
            feats, z, labels = (torch.stack(column) for column in zip(*results, strict=True))
            self._report(runner, measure(feats, z, labels), z)

    def represent(self, model: BaseRecognizer) -> list[tuple[Tensor, Tensor, Tensor]] | None:
        """Encode the list, each rank its share.

        Args:
            model: A CVRL model in evaluation mode.

        Returns:
            On the main process features (2, C), embeddings (2, D) and label of each video, in
            the order of the list; None on the others.

        Raises:
            ValueError: the loader does not give two clips a video.
        """
        videos: list[tuple[Tensor, Tensor, Tensor]] = []
        for feats, labels in clip_features(model, self.loader):
            if feats.shape[1] != 2:
                raise ValueError(
                    f'RepresentationHook takes two clips a video, got {feats.shape[1]}; '
                    'sample with EvenClipSample(num_clips=2) and one crop.'
                )
            with torch.no_grad():
                z = model.cls_head(feats.flatten(0, 1)).float().unflatten(0, (-1, 2))
            videos += zip(feats.cpu(), z.cpu(), labels, strict=True)
        # 'gpu' means by the ranks' backend, 'cpu' through files in the working directory
        return collect_results(videos, len(self.loader.dataset), device='gpu')

    def _report(self, runner: Runner, scalars: dict[str, float], z: Tensor) -> None:
        epoch = runner.epoch + 1
        text = '  '.join(f'{name}: {value:.4f}' for name, value in scalars.items())
        runner.logger.info(f'Representation after epoch {epoch}: {text}')
        runner.visualizer.add_scalars(
            {f'representation/{name}': value for name, value in scalars.items()}, step=epoch
        )
        std, rank = scalars['embedding_std'], scalars['embedding_rank']
        directions = min(len(z) - 1, z.shape[-1])
        if not (std >= MIN_STD and rank >= max(2, MIN_RANK_SHARE * directions)):  # NaN, too
            runner.logger.warning(
                f'The embedding collapses: after epoch {epoch} its standard deviation is '
                f'{std:.3g} (1 where it is spread evenly) and its effective rank {rank:.3g} of '
                f'{directions}. Look at the learning rate and the curve of the loss (NaN, or flat '
                'at the logarithm of twice the batch), at sync_bn over all ranks, at the '
                'temperature, and at whether both clips of a video are augmented apart.'
            )


def measure(feats: Tensor, z: Tensor, labels: Tensor) -> dict[str, float]:
    """Compute everything that is reported.

    Args:
        feats: Backbone features of two clips of each video, (N, 2, C).
        z: Their embeddings, (N, 2, D).
        labels: (N,).

    Returns:
        Numbers by name.
    """
    sims, indices = leave_one_out(feats.mean(1), NUM_NEIGHBOURS)
    hits = labels[indices] == labels[:, None]  # (N, NUM_NEIGHBOURS)
    predicted = vote(sims, labels[indices])
    scalars = dict(knn_top1=(predicted == labels).double().mean().item())
    scalars |= {f'R@{k}': hits[:, :k].any(1).double().mean().item() for k in RECALLS}
    for name, x in (('feature', feats), ('embedding', z)):
        first, second = x.unbind(1)
        scalars[f'{name}_std'] = mean_std(first)
        scalars[f'{name}_rank'] = effective_rank(first)
        scalars[f'{name}_alignment'] = alignment(first, second)
        scalars[f'{name}_uniformity'] = uniformity(first)
    return scalars


@contextmanager
def untouched_state(model: nn.Module) -> Iterator[None]:
    """Put modes and random states back that are changed within."""
    modes = {module: module.training for module in model.modules()}
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            for module, training in modes.items():
                module.training = training
