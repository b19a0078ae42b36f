"""Options that commands and functions share: each has its type, default and help once.

The commands read this file without the package, whose import takes seconds; it needs the standard
library alone.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any

MIN_SIZE = 32  # pixels; the encoder reduces frames by a factor of 32
RANDOM = 'random'  # instead of an encoder: random weights
NONE = 'none'  # value of ``val``: no video is held out
ENCODERS = ('tiny', 'small', 'r3d18', 'r3d50')


def option(text: str, default: Any = None, **more: Any) -> Any:
    """Make a field with the help of its option.

    Args:
        text: The help. The text in parentheses at its end applies to ``cvrl pretrain`` only.
        default: The default value.
        **more: ``least``, the least valid integer; ``choices``; ``group``, the group of options in
            the help of a training.
    """
    return field(default=default, metadata=dict(help=text) | more)


@dataclass(frozen=True)
class Options:
    """Options of a training; None means that the value is chosen from the videos and the machine.

    ``hours``, ``epochs`` and ``steps`` exclude each other. The help of each option is in its
    field's metadata; the help of a switch says what happens if it is False.

    Raises:
        ValueError: A value is out of its range, or two options exclude each other.
    """

    init: str | None = option(
        'checkpoint to start from, whose architecture is kept, or "random" for random weights '
        '(tiny: the weights of this package, others: random)'
    )
    encoder: str | None = option(
        'tiny and small have few channels (by machine and number of videos)', choices=ENCODERS
    )
    hours: float | None = option('time to train, without inspection and report', group='length')
    epochs: int | None = option('passes over the videos', group='length', least=1)
    steps: int | None = option('steps', group='length', least=1)
    clip_len: int | None = option('frames per clip (16 on a GPU, 8 on a CPU)', least=1)
    frame_interval: int | None = option(
        'distance between frames of a clip, in frames of the video (by length and rate of the '
        'videos)',
        least=1,
    )
    size: int | None = option(
        'side of the frames that the encoder sees, in pixels (by the encoder: 48 to 224, on a CPU '
        'at most 64; less for small videos)',
        least=MIN_SIZE,
    )
    batch_size: int | None = option(
        'videos per step on each device (by the number of videos; at most 48 to 128)', least=2
    )
    lr: float | None = option(
        'learning rate (for 48 videos per step: 0.004, r3d18 and r3d50: 0.0005)'
    )
    workers: int | None = option(
        'processes per device that load videos, 0 for none (by the cores)', least=0
    )
    segment_seconds: float = option(
        'longer files count as several videos of this length (30)', 30.0
    )
    seed: int = option('of all random draws (0)', 0, least=0)
    groups: str | None = option(
        'regular expression with one group: videos whose names have the same text there, such as a '
        'person or a recording, are held out together'
    )
    cache: bool = option(
        'decode each sample from its file (by default decoded frames are stored in OUT until the '
        'end of the training, where this pays)',
        True,
    )
    flip: bool = option(
        'do not mirror clips: where left and right matter', True, group='augmentation'
    )
    colour: bool = option(
        'do not change colours or brightness: where they matter', True, group='augmentation'
    )
    zoom: bool = option(
        'crops keep at least 80 % of the area, not 30 or 40 %: where the subject is small',
        True,
        group='augmentation',
    )

    def __post_init__(self) -> None:
        if sum(x is not None for x in (self.hours, self.epochs, self.steps)) > 1:
            raise ValueError('hours, epochs and steps exclude each other; give one of them.')
        if self.encoder is not None and self.encoder not in ENCODERS:
            raise ValueError(f'encoder must be one of {list(ENCODERS)}, got {self.encoder!r}.')
        if self.encoder is not None and self.init not in (None, RANDOM):
            raise ValueError('init determines the architecture; do not give encoder.')
        for x in fields(self):
            value, least = getattr(self, x.name), x.metadata.get('least')
            if value is None:
                continue
            if least is not None and not (isinstance(value, int) and value >= least):
                raise ValueError(f'{x.name} must be an integer of at least {least}, got {value!r}.')
            if x.type in (float, float | None) and not 0 < value < math.inf:  # NaN, too
                raise ValueError(f'{x.name} must be a positive number, got {value!r}.')


@dataclass(frozen=True)
class FinetuneOptions(Options):
    """Options of a fine-tuning: the same as of a pre-training, with ``init``, the encoder."""

    val: str | None = option(
        'held-out videos, or "none" to train on all; default: 30 % of each class'
    )
    frozen: bool = option('train only the linear layer', False)


@dataclass(frozen=True)
class RepackSettings:
    """Settings of repacked videos; docs/speed.md has the measurements for the defaults."""

    short_side: int = option('pixels of the shorter side; smaller videos keep their size', 256)
    key_frame_interval: int = option('frames between key frames', 16)
    crf: int = option('quality of x264; lower is better, with larger files', 23)

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height of the new video, which must be even for 4:2:0."""
        scale = min(1, self.short_side / min(width, height))
        return max(2, 2 * round(width * scale / 2)), max(2, 2 * round(height * scale / 2))
