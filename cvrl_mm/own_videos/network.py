"""The encoders that can be trained on a user's own videos."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Network:
    """An encoder to train.

    Attributes:
        backbone: Fields of the backbone's config, except for the type.
        channels: Number of channels of the features.
        size: Default side length of the frames on a GPU, in pixels.
        preprocessor: Fields of the data preprocessor's config.
    """

    backbone: dict
    channels: int
    size: int
    preprocessor: dict = field(default_factory=dict)


ENCODERS = {
    'tiny': Network(
        dict(depth=18, width=0.25, stage_blocks=(1, 1, 1, 1), channels_last=True), 128, 64
    ),
    'small': Network(
        dict(depth=18, width=0.5, stage_blocks=(1, 1, 1, 1), channels_last=True), 256, 64
    ),
    'r3d18': Network(dict(depth=18), 512, 112),
    'r3d50': Network(dict(depth=50), 2048, 224),
}
