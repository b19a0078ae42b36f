"""Encode a video again, so that random clips are decoded faster."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np

from ..datasets.reader import ONE_THREAD, UnreadableVideoError, VideoFile, quarter_turns
from ..io import one_line

DECODED_SHARE = 0.95  # of the duration; if less can be decoded, the source is truncated
CLOCK_SECONDS = 2e-3  # MP4 rounds the times of frames to its time base
PRESETS = (  # of x264, from fast to slow
    *('ultrafast', 'superfast', 'veryfast', 'faster', 'fast'),
    *('medium', 'slow', 'slower', 'veryslow', 'placebo'),
)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)  # EDQUOT: the quota of the user is used up
TUNES = ('fastdecode', 'none')


class RepackError(ValueError):
    """Raised if a video cannot be repacked completely."""


@dataclass(frozen=True)
class RepackSettings:
    """Settings of the encoder.

    By default, the features of H.264 that are slowest to decode are disabled (``tune``), and no
    frame refers to a B-frame (``x264_params``), so that :class:`.VideoFile` can skip the B-frames
    between requested frames. docs/speed.md contains the measurements for the defaults.

    Args:
        short_side: Length of the shorter side in pixels; smaller videos keep their size.
        key_frame_interval: Number of frames between two key frames, at which decoding can start.
        crf: Quality of x264. Lower values give better quality and larger files.
        preset: Preset of x264. Slower presets give smaller files.
        tune: 'fastdecode', or 'none' for smaller files that are slower to decode.
        x264_params: Further parameters of x264.

    Raises:
        ValueError: A number is out of range, or the preset or tune is unknown.
    """

    short_side: int = 256
    key_frame_interval: int = 16
    crf: int = 23
    preset: str = 'medium'
    tune: str = 'fastdecode'
    x264_params: str = 'b-pyramid=none'

    def __post_init__(self) -> None:
        if self.short_side < 16 or self.key_frame_interval < 1 or not 0 <= self.crf <= 51:
            raise ValueError(
                'short_side must be at least 16 pixels, key_frame_interval at least 1 frame and '
                f'crf in 0..51, got {self}.'
            )
        if self.preset not in PRESETS:
            raise ValueError(f'preset must be one of {", ".join(PRESETS)}; got {self.preset!r}.')
        if self.tune not in TUNES:
            raise ValueError(f'tune must be one of {", ".join(TUNES)}; got {self.tune!r}.')

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height of the new video, which must be even for 4:2:0."""
        scale = min(1, self.short_side / min(width, height))
        return max(2, 2 * round(width * scale / 2)), max(2, 2 * round(height * scale / 2))


def repack_video(source: Path, target: Path, settings: RepackSettings) -> None:
    """Encode a video as H.264 in MP4 without sound, with the same frames at the same times.

    Rotated videos become upright. The new video is decoded, and the number and the times of its
    frames are compared with those of the source.

    Args:
        source: Path of the video.
        target: Path of the new video. It is incomplete after an error.
        settings: Settings of the encoder.

    Raises:
        RepackError: The source is damaged or contains no video, or the new video differs from it.
        OSError: The disk of the target is full.
    """
    try:
        with VideoFile(source, strict=True) as reader, av.open(str(target), 'w') as writer:
            expected = _encode(reader, writer, settings)
        with VideoFile(target, strict=True) as outcome:
            seconds = _start_at_zero([_seconds(f) for f in outcome.frames()])
            num_frames = outcome.num_frames
            outcome.read([num_frames - 1])
    except UnreadableVideoError as error:
        raise RepackError(error.reason) from error
    except (av.FFmpegError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise RepackError(one_line(error)) from error
    if not len(expected) == len(seconds) == num_frames:
        raise RepackError(
            f'{len(expected)} frames were encoded, {len(seconds)} decoded and {num_frames} counted'
        )
    if np.abs(seconds - expected).max() > CLOCK_SECONDS:
        raise RepackError('the times of its frames differ from those of the source')


def _encode(
    reader: VideoFile, writer: av.container.OutputContainer, settings: RepackSettings
) -> np.ndarray:
    """Encode all frames; return their times in seconds since the first frame."""
    stream = reader.stream
    rate = cast(Fraction, stream.average_rate or Fraction(25))
    output = None
    seconds: list[float] = []
    duration = 0  # of the last frame; the last image of a screen recording may be shown for long
    time_base = _time_base(stream)
    for frame in _frames(reader, rate):
        if output is None:
            output = _add_stream(writer, frame, rate, settings)
            output.codec_context.time_base = time_base
        seconds.append(_seconds(frame))
        duration = frame.duration or 0
        writer.mux(output.encode(_resize(frame, output)))
    if output is None:
        raise RepackError('none of its frames can be decoded')
    if reader.num_errors:
        raise RepackError(f'it is damaged: {reader.num_errors} decoder errors')
    writer.mux(output.encode())
    times = _start_at_zero(seconds)
    promised = float((stream.duration or 0) * time_base)
    decoded = times[-1] + max(float(1 / rate), float(duration * time_base))
    if decoded < DECODED_SHARE * promised:
        raise RepackError(f'its header states {promised:.1f} s, but {decoded:.1f} s can be decoded')
    return times


def _frames(reader: VideoFile, rate: Fraction) -> Iterator[av.VideoFrame]:
    """Decode upright frames with increasing times."""
    time_base = _time_base(reader.stream)
    step = max(1, round(1 / (rate * time_base)))
    last = -step
    for frame in reader.frames():
        if frame.pts is None:
            time = last + step
        elif last >= frame.pts:
            time = last + 1
        else:
            time = frame.pts
        frame = _turn(frame)
        frame.pts, frame.time_base, last = time, time_base, time
        frame.pict_type = 0  # the encoder chooses its key frames
        yield frame


def _turn(frame: av.VideoFrame) -> av.VideoFrame:
    """Rotate a frame according to its display matrix."""
    turns = quarter_turns(frame)
    if not turns:
        return frame
    planes = np.rot90(frame.to_ndarray(format='yuv444p'), turns, axes=(1, 2))
    turned = type(frame).from_ndarray(np.ascontiguousarray(planes, np.uint8), format='yuv444p')
    turned.colorspace, turned.color_range = frame.colorspace, frame.color_range
    turned.duration = frame.duration or 0
    return turned


def _add_stream(
    writer: av.container.OutputContainer,
    frame: av.VideoFrame,
    rate: Fraction,
    settings: RepackSettings,
) -> av.VideoStream:
    options = {
        'crf': str(settings.crf),
        'preset': settings.preset,
        'x264-params': settings.x264_params,
    }
    if settings.tune != 'none':
        options['tune'] = settings.tune
    output = writer.add_stream('libx264', rate=rate, options=options)
    output.width, output.height = settings.size(frame.width, frame.height)
    output.pix_fmt = 'yuv420p'
    context = output.codec_context
    context.gop_size, context.thread_count = settings.key_frame_interval, 1
    # decoders use these for the conversion to RGB
    context.colorspace, context.color_range = frame.colorspace, frame.color_range
    return output


def _resize(frame: av.VideoFrame, output: av.VideoStream) -> av.VideoFrame:
    time, time_base = frame.pts, frame.time_base
    width, height = output.width, output.height
    resized = frame.reformat(width, height, 'yuv420p', interpolation='BICUBIC', **ONE_THREAD)
    resized.pts, resized.time_base = time, time_base
    return resized


def _time_base(stream: av.VideoStream) -> Fraction:
    if stream.time_base is None:
        raise RepackError('its times have no unit')
    return cast(Fraction, stream.time_base)  # PyAV declares another type


def _seconds(frame: av.VideoFrame) -> float:
    if frame.time is None:
        raise RepackError('a frame has no time')
    return frame.time


def _start_at_zero(seconds: list[float]) -> np.ndarray:
    return np.array(seconds) - (seconds[0] if seconds else 0)
