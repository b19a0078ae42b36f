"""The shape of a training sample, read from its pipeline's config."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class SampleShape(NamedTuple):
    """Number of clips, frames per clip, and height and width of the frames in pixels."""

    clips: int
    frames: int
    height: int
    width: int


def sample_shape(pipeline: Sequence[dict[str, Any]]) -> SampleShape | None:
    """Derive the shape of a sample from the sampling, resizing and cropping steps.

    Args:
        pipeline: Configs of the steps.

    Returns:
        The shape, or None if no step gives the size of the frames.
    """
    clips, frames, height, width = 1, 1, 0, 0
    for step in pipeline:
        if step['type'].endswith('TemporalIntervalSample'):
            clips, frames = 2, step['clip_len']
        elif 'clip_len' in step:
            clips, frames = step.get('num_clips', 1), step['clip_len']
        for inner in [step, *step.get('transforms', [])]:
            scale = inner.get('scale')
            is_size = isinstance(scale, Sequence) and min(scale) > 0
            if inner['type'].split('.')[-1] == 'Resize' and is_size:
                width, height = scale
            size = inner.get('size', inner.get('crop_size'))
            if inner['type'].endswith('Crop') and size is not None:
                width, height = (size, size) if isinstance(size, int) else size
    return SampleShape(clips, frames, height, width) if height and width else None
