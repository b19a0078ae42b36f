"""The encoder of a checkpoint, ready to take features with."""

import logging
from pathlib import Path

from mmaction.models import BaseRecognizer
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import init_default_scope

from cvrl_mm.convert import extract_backbone
from cvrl_mm.models.pretrained import CheckpointMisfitError, check_fit

# Frames in [0, 1], as in pre-training
PREPROCESSOR = dict(
    type='ActionDataPreprocessor',
    mean=[0.0, 0.0, 0.0],
    std=[255.0, 255.0, 255.0],
    format_shape='NCTHW',
)


def load_encoder(checkpoint: str | Path, config: Config | None = None) -> BaseRecognizer:
    """Build a recognizer that has an encoder and no head, and load its weights.

    Args:
        checkpoint: A file with weights named ``backbone.…``; one that
            ``tools/convert_checkpoint.py tf`` has written tells its architecture itself.
        config: A config whose ``model`` has the ``backbone`` and ``data_preprocessor`` of the
            checkpoint; weights that it would start from are not looked for. Without it frames
            are in [0, 1], as in pre-training; for inflated weights a warning says so.

    Returns:
        The recognizer on the CPU, in evaluation mode.

    Raises:
        ValueError: the checkpoint holds more than weights, does not tell its architecture
            where there is no config, or does not fit.
    """
    found = extract_backbone(checkpoint)
    if config is None:
        if found['meta'].get('inflated'):
            print_log(
                f'{checkpoint} is inflated from a network for images and gets frames in [0, 1]. If '
                'that one was trained on frames normalised by mean and std, name a config that has '
                'them, such as configs/baselines/linear_k400_imagenet_inflated.py.',
                logger='current',
                level=logging.WARNING,
            )
        parts = dict(backbone=_read_backbone(checkpoint, found['meta']))
        parts['data_preprocessor'] = PREPROCESSOR
    else:
        parts = {key: dict(config.model[key]) for key in ('backbone', 'data_preprocessor')}
        parts['backbone'].pop('init_cfg', None)
    init_default_scope('mmaction')
    model = MODELS.build(dict(type='Recognizer3D', **parts))
    try:
        check_fit(model.backbone, found, str(checkpoint), 'backbone.')
    except CheckpointMisfitError as error:
        raise ValueError(
            f'{error} This is {parts["backbone"]}; name the config that it was trained with.'
        ) from error
    weights = {k.removeprefix('backbone.'): v for k, v in found['state_dict'].items()}
    model.backbone.load_state_dict(weights, strict=False)  # without counters of batches
    return model.eval()


def _read_backbone(checkpoint: str | Path, meta: dict) -> dict:
    """Make the config of an ``R3DSlow`` of what a checkpoint says of itself."""
    told = {key: meta[key] for key in ('depth', 'width', 'padding') if key in meta}
    if len(told) < 3:
        raise ValueError(
            f'{checkpoint} tells {told or "nothing"} of depth, width and padding; name the '
            'config that it was trained with (--config).'
        )
    return dict(type='R3DSlow', **told)
