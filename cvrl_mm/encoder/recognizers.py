"""Build the recognizers of configs, with given weights, and calibrate their statistics."""

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
from mmaction.models import BaseRecognizer
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.logging import MMLogger, print_log
from mmengine.registry import init_default_scope
from mmengine.runner import Runner, set_random_seed
from torch import nn
from torch.optim.swa_utils import update_bn

from ..datasets.seeding import SeededBatches
from ..options import RANDOM
from .description import ClipInput, load_backbone
from .files import extract_backbone, locate_weights

CALIBRATION_STEPS = 20  # about as many as a running average with momentum 0.1 remembers


def calibrate(config: Config, *models: BaseRecognizer) -> None:
    """Replace the running statistics of batch norm by statistics of training clips.

    The clips come from the first 20 steps of the training of ``config``, augmented as there, and
    each batch is normalised by itself, as in training. No weight changes. Networks that are
    calibrated together differ by their weights alone: one that was trained with a learning rate of
    zero equals the untrained one.

    Args:
        config: Config with ``train_dataloader`` and ``randomness.seed``.
        models: Recognizers on one device; they are left in evaluation mode.
    """
    seed = config.get('randomness', {}).get('seed') or 0
    batches = dict(type=SeededBatches, drop_last=True)
    changes = dict(batch_sampler=batches, drop_last=False, timeout=0)
    loader: Any = Runner.build_dataloader({**config.train_dataloader, **changes}, seed)
    loader.batch_sampler.seed, loader.batch_sampler.num_steps = seed, CALIBRATION_STEPS
    together = _Backbones(models)
    update_bn(loader, together)
    together.eval()


class _Backbones(nn.ModuleList):
    """Several recognizers, of which a batch passes the backbones."""

    def forward(self, batch: dict) -> None:
        model: Any
        for model in self:
            inputs = model.data_preprocessor(batch, training=True)['inputs']
            model.extract_feat(inputs, stage='backbone')


def build_recognizer(config: Config, checkpoint: str | Path | None = None) -> BaseRecognizer:
    """Build the recognizer of a config, with a trained backbone or as at the start of training.

    Args:
        config: Config with ``model`` and, for untrained weights, ``randomness.seed``.
        checkpoint: A checkpoint, as for :func:`load_encoder`, whose ``backbone.…`` weights replace
            the config's ``init_cfg``, or ``'random'`` for random weights. All other
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
    if 'data_preprocessor' in config:  # as mmengine's runner does
        parts.setdefault('data_preprocessor', config.data_preprocessor)
    weights = None
    if checkpoint is not None:
        # read before the network is built, so that a wrong file is reported immediately
        if str(checkpoint) != RANDOM:
            weights = extract_backbone(locate_weights(checkpoint))
        weights_of = {'init_cfg', 'pretrained'} & parts.backbone.keys()
        parts.backbone.update(dict.fromkeys(weights_of))
    model = MODELS.build(parts)
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.WARNING)  # mmengine logs the initialisation of each parameter
    model.init_weights()
    logger.setLevel(level)
    if weights is not None:
        load_backbone(model.backbone, weights, str(checkpoint))
        _compare_clips(config, weights['meta'].get('input'), str(checkpoint))
    return model


def _compare_clips(config: Config, described: dict | None, checkpoint: str) -> None:
    """Warn if the config samples other clips than those for which the encoder was trained.

    Longer and larger clips are not reported, as the paper trains on 16 frames of 224x224 and
    evaluates on 32 frames of 256x256 (Sec. 4.1).
    """
    if described is None:
        return
    trained, given = ClipInput(**described), ClipInput.from_config(config)
    equal = ('frame_interval', 'mean', 'std', *(['fps'] if trained.fps else []))
    pairs = {n: (getattr(trained, n), getattr(given, n) or 0) for n in equal}
    differing = [n for n, pair in pairs.items() if not np.allclose(*pair, 1e-3)]
    differing += [n for n in ('clip_len', 'size') if getattr(given, n) < getattr(trained, n)]
    changes = [f'{name}={getattr(given, name)}, not {getattr(trained, name)}' for name in differing]
    if changes:
        what = f'The config samples other clips than {checkpoint} was trained on'
        print_log(f'{what}: {"; ".join(changes)}.', 'current', logging.WARNING)
