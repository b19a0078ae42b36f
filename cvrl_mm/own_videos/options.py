"""The options of a user."""

import math
from dataclasses import dataclass

from .network import ENCODERS

MIN_SIZE = 32  # pixels; the encoder reduces frames by a factor of 32


@dataclass(frozen=True)
class Options:
    """What a user may set; None means that the value is chosen from the videos and the machine.

    Attributes:
        encoder: A key of ``ENCODERS``.
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        size: Side of the frames that the encoder sees, in pixels.
        batch_size: Videos per step on each device.
        lr: Learning rate.
        hours: Length of the training in hours.
        epochs: Length of the training in passes over the videos.
        steps: Length of the training in steps.
        workers: Processes per device that load videos.
        init: Checkpoint to start from.
        flip: Mirror half of the clips.
        colour: Jitter brightness, contrast, saturation and hue, and turn some clips grey.
        zoom: Crop down to 30 % of the area; without it down to 80 %.
        segment_seconds: Longer files count as several videos of this length.
        seed: Seed of all random draws.

    Raises:
        ValueError: A value is out of its range, or two options exclude each other.
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
        if self.encoder is not None and self.encoder not in ENCODERS:
            raise ValueError(f'encoder must be one of {list(ENCODERS)}, got {self.encoder!r}.')
        if self.encoder is not None and self.init is not None:
            raise ValueError('init brings its own architecture; leave encoder out.')
        minimum = dict(
            clip_len=1,
            frame_interval=1,
            batch_size=2,
            epochs=1,
            steps=1,
            workers=0,
            seed=0,
            size=MIN_SIZE,
        )
        for name, least in minimum.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f'{name} must be at least {least}, got {value}.')
        for name in ('lr', 'hours', 'segment_seconds'):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f'{name} must be above 0, got {value}.')
