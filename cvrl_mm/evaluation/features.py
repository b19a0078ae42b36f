"""Features of videos from a frozen backbone."""

import copy
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from mmaction.models import BaseRecognizer
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import init_default_scope
from mmengine.runner import set_random_seed
from torch import Tensor

from ..convert.clip_input import ClipInput
from ..convert.description import load_backbone
from ..convert.export import extract_backbone
from ..convert.locate_weights import locate_weights
from ..models.pooling import global_average_pool

UNTRAINED = 'untrained'  # instead of a checkpoint: random weights with the config's seed


def build_recognizer(config: Config, checkpoint: str | Path | None = None) -> BaseRecognizer:
    """Build the recognizer of a config, with a trained backbone or as at the start of training.

    Args:
        config: Config with ``model`` and, for untrained weights, ``randomness.seed``.
        checkpoint: A checkpoint, as for :func:`load_encoder`, whose ``backbone.…`` weights replace
            those of the config's ``init_cfg``, or ``'untrained'`` for random weights. All other
            weights are initialised randomly.

    Returns:
        The recognizer on the CPU.

    Raises:
        CheckpointMisfitError: The checkpoint does not fit the backbone.
        OSError, ValueError: See :func:`load_encoder`.
    """
    init_default_scope(config.get('default_scope', 'mmaction'))
    set_random_seed(config.get('randomness', {}).get('seed'))
    parts = copy.deepcopy(config.model)
    weights = None
    if checkpoint is not None:
        # read before the network is built, so that a wrong file is reported immediately
        if str(checkpoint) != UNTRAINED:
            weights = extract_backbone(locate_weights(checkpoint))
        for key in ('init_cfg', 'pretrained'):
            if key in parts.backbone:
                parts.backbone[key] = None
    model = MODELS.build(parts)
    model.init_weights()
    if weights is not None:
        load_backbone(model.backbone, weights, str(checkpoint))
        _compare_clips(config, weights['meta'].get('input'), str(checkpoint))
    return model


def _compare_clips(config: Config, described: dict | None, checkpoint: str) -> None:
    """Warn if the config samples other clips than those for which the encoder was trained.

    Longer and larger clips are not reported, as the paper trains on 16 frames of 224x224 and
    evaluates on 32 frames of 256x256 (Section 4.1).
    """
    if described is None:
        return
    trained, given = ClipInput.from_dict(described), ClipInput.from_config(config)
    differing = [
        name
        for name in ('frame_interval', 'mean', 'std')
        if not np.allclose(getattr(trained, name), getattr(given, name), rtol=1e-3)
    ]
    differing += [n for n in ('clip_len', 'size') if getattr(given, n) < getattr(trained, n)]
    if differing:
        expected, found = (
            ', '.join(f'{name}={getattr(clips, name)}' for name in differing)
            for clips in (trained, given)
        )
        print_log(
            f'{checkpoint} was trained on clips with {expected}, but the config samples clips with '
            f'{found}. The features may be worse; adapt the pipelines of the config.',
            logger='current',
            level=logging.WARNING,
        )


@torch.no_grad()
def extract_features(model: BaseRecognizer, batches: Iterable[dict]) -> tuple[Tensor, Tensor]:
    """Compute the backbone's pooled features, averaged over the clips of each video.

    Args:
        model: A recognizer; it is run in evaluation mode.
        batches: Batches of a data loader, with any number of clips per video.

    Returns:
        Features, (V, C) float32, and labels, (V,), both on the CPU and in the order of the videos.

    Raises:
        ValueError: There are no batches.
    """
    feats, labels = [], []
    was_training = model.training
    model.eval()
    for clips, batch_labels in clip_features(model, batches):
        feats.append(clips.mean(1).cpu())
        labels.append(batch_labels)
    model.train(was_training)
    if not feats:
        raise ValueError('The data loader is empty; there are no videos to compute features of.')
    return torch.cat(feats), torch.cat(labels)


@torch.no_grad()
def clip_features(
    model: BaseRecognizer, batches: Iterable[dict]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Compute the backbone's pooled features of each clip.

    Args:
        model: A recognizer; its mode is not changed.
        batches: Batches of a data loader.

    Yields:
        For each batch, the features, (N, num_clips, C) float32 on the model's device, and the
        labels, (N,) on the CPU.
    """
    for batch in batches:
        data = model.data_preprocessor(batch, training=False)
        inputs = data['inputs']  # (N, num_clips, C, T, H, W)
        clips, _ = model.extract_feat(inputs, stage='backbone')  # (N * num_clips, C, T, H, W)
        feats = global_average_pool(clips).float().unflatten(0, inputs.shape[:2])
        yield feats, torch.tensor([int(s.gt_label) for s in data['data_samples']])
