"""The options of ``cvrl pretrain``."""

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from mmengine.config import Config

from .network import ENCODERS

MIN_SIZE = 32  # pixels; the encoder reduces frames by a factor of 32
MIN_BATCH_SIZE = 2  # videos per device
LIMITS: dict[str, tuple[float, float]] = dict(  # integers where the option is an integer
    clip_len=(1, 1000),
    frame_interval=(1, 100_000),
    size=(MIN_SIZE, 4096),
    batch_size=(MIN_BATCH_SIZE, 1_000_000),
    lr=(1e-12, 1e3),
    hours=(1e-9, 1e5),
    epochs=(1, 1_000_000),
    steps=(1, 1_000_000_000),
    workers=(0, 1000),
    segment_seconds=(0.01, 1e7),
    seed=(0, 2**32 - 1),
)
# Keys of the options that users edit in the config of a training
CONFIG_KEYS = dict(
    clip_len='clip.clip_len',
    frame_interval='clip.frame_interval',
    size='size',
    batch_size='train_dataloader.batch_size',
    lr='optim_wrapper.optimizer.lr',
    steps='train_cfg.max_iters',
    workers='train_dataloader.num_workers',
    seed='randomness.seed',
)


@dataclass(frozen=True)
class Options:
    """Options of a training; None means that the value is chosen from the videos and the machine.

    Attributes:
        encoder: A key of ``ENCODERS``.
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        size: Side length of the input frames of the encoder, in pixels.
        batch_size: Videos per step on each device.
        lr: Learning rate.
        hours: Length of the training in hours.
        epochs: Length of the training in passes over the videos.
        steps: Length of the training in steps.
        workers: Number of loader processes per device.
        init: Checkpoint to start from.
        flip: Flip half of the clips horizontally.
        colour: Jitter brightness, contrast, saturation and hue, and convert some clips to grey.
        zoom: Crop at least 30 % of the area; if False, at least 80 %.
        segment_seconds: Longer files count as several videos of this length.
        seed: Seed of all random draws.

    Raises:
        ValueError: A value is out of its range or of a wrong type, or two options exclude each
            other.
    """

    encoder: str | None = None
    clip_len: int | None = None
    frame_interval: int | None = None
    size: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    hours: float | None = None
    epochs: int | None = None
    steps: int | None = None
    workers: int | None = None
    init: str | None = None
    flip: bool = True
    colour: bool = True
    zoom: bool = True
    segment_seconds: float = 30.0
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = [x for x in (self.hours, self.epochs, self.steps) if x is not None]
        if len(lengths) > 1:
            raise ValueError('hours, epochs and steps exclude each other; give one of them.')
        if self.encoder is not None and self.encoder not in list(ENCODERS):
            raise ValueError(f'encoder must be one of {list(ENCODERS)}, got {self.encoder!r}.')
        if self.encoder is not None and self.init is not None:
            raise ValueError('init determines the architecture; do not give encoder.')
        for name in ('flip', 'colour', 'zoom'):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f'{name} must be True or False, got {getattr(self, name)!r}.')
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LIMITS and (value is not None or field.default is not None):
                # Without the types of NumPy, which JSON does not know
                object.__setattr__(self, field.name, _checked(field.name, value, field.name))


def check_config(cfg: Config) -> None:
    """Check the values of options in the config of a training, which users may edit.

    Raises:
        ValueError: A value is out of its range or of a wrong type.
    """
    for option, key in CONFIG_KEYS.items():
        value: Any = cfg
        for part in key.split('.'):
            if not isinstance(value, dict | Config) or part not in value:
                break  # by another kind of config, such as that of another optimizer
            value = value[part]
        else:
            _checked(option, value, f'{key} in {cfg.filename}')


def _checked(option: str, value: Any, name: str) -> float:
    """Return the number if it is within the limits of the option."""
    least, most = LIMITS[option]
    kind, what = (Integral, 'an integer') if isinstance(least, int) else (Real, 'a number')
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # NaN, too
        low, high = (np.format_float_positional(limit, trim='-') for limit in (least, most))
        raise ValueError(f'{name} must be {what} from {low} to {high}, got {value!r}.')
    return type(least)(value)
