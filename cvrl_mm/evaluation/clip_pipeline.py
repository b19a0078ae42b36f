"""The pipeline that samples clips for feature extraction."""

from ..convert.clip_input import ClipInput


def clip_steps(clip_input: ClipInput, num_clips: int) -> list[dict]:
    """Configure sampling and cropping of clips (Section 4.1: 10 clips of 32 frames, stride 2).

    The short side of each frame is resized to the size of the crop, and the centre is cropped.

    Args:
        clip_input: Length, frame interval and size of the clips.
        num_clips: Number of evenly spaced clips per video.

    Returns:
        Configs of transforms; the first one is the sampling.
    """
    return [
        dict(
            type='EvenClipSample',
            clip_len=clip_input.clip_len,
            frame_interval=clip_input.frame_interval,
            num_clips=num_clips,
        ),
        dict(type='Resize', scale=(-1, clip_input.size)),
        dict(type='CenterCrop', crop_size=clip_input.size),
        dict(type='FormatShape', input_format='NCTHW'),
        dict(type='PackActionInputs'),
    ]


def decoding_steps(steps: list[dict]) -> list[dict]:
    """Insert opening and decoding of a video file before and after the sampling."""
    return [dict(type='VideoFileInit'), steps[0], dict(type='VideoFileDecode'), *steps[1:]]
