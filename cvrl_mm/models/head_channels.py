"""Comparison of a head's input channels with the backbone's features."""

from torch import nn


def check_head_channels(backbone: nn.Module, in_channels: int) -> None:
    """Compare the input channels of a head with the channels of the features.

    Args:
        backbone: A backbone with ``out_channels``; others are not checked.
        in_channels: Input channels of the head.

    Raises:
        ValueError: The two differ.
    """
    channels = getattr(backbone, 'out_channels', in_channels)
    if in_channels != channels:
        raise ValueError(
            f'model.cls_head.in_channels={in_channels}, but the features of this '
            f'{type(backbone).__name__} have {channels} channels. Set '
            f'model.cls_head.in_channels={channels}.'
        )
