"""The pipeline that makes the clips that features are taken from."""

from ..convert.clip_input import ClipInput


def clip_steps(clip_input: ClipInput, num_clips: int) -> list[dict]:
    """Configure sampling and cropping of clips (Section 4.1: 10 clips of 32 frames, stride 2).

    The short side of each frame is resized to the crop's side, and the middle square is kept.

    Args:
        clip_input: Length, interval and size.
        num_clips: Evenly spaced clips per video.

    Returns:
        Configs of transforms; the sampling comes first.
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
    """Add opening and decoding of a file around the sampling."""
    return [dict(type='VideoFileInit'), steps[0], dict(type='VideoFileDecode'), *steps[1:]]
