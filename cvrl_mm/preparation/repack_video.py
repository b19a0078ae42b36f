"""Encode one video again so that random clips of it are decoded quickly."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np

from ..datasets.rotation import quarter_turns
from ..datasets.video_file import ONE_THREAD, VideoFile
from ..datasets.video_reading import UnreadableVideoError, one_line

DECODED_SHARE = 0.95  # a source of which less can be decoded is truncated
CLOCK_SECONDS = 2e-3  # MP4 rounds the times of frames to its own clock
PRESETS = (  # x264's, fastest first
    *('ultrafast', 'superfast', 'veryfast', 'faster', 'fast'),
    *('medium', 'slow', 'slower', 'veryslow', 'placebo'),
)


TUNES = ('fastdecode', 'none')


class RepackError(ValueError):
    """A video that cannot be repacked without loss."""


@dataclass(frozen=True)
class RepackSettings:
    """How videos are encoded.

    By default, what costs a decoder most is off (``tune``), and no frame refers to a B-frame
    (``x264_params``), so that :class:`.VideoFile` need not decode the B-frames between wanted
    frames. docs/speed.md has the measurements behind the defaults.

    Args:
        short_side: Pixels of the shorter side; smaller videos keep their size.
        key_frame_interval: Frames between two places at which a decoder can start.
        crf: x264's quality: lower is better and larger.
        preset: x264's effort.
        tune: 'fastdecode', or 'none' for files that are smaller and slower to decode.
        x264_params: Further parameters of x264.

    Raises:
        ValueError: A number is out of range, or x264 has no such preset or tune.
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
        """Width and height of the outcome, even numbers as 4:2:0 needs them."""
        scale = min(1, self.short_side / min(width, height))
        return max(2, 2 * round(width * scale / 2)), max(2, 2 * round(height * scale / 2))


def repack_video(source: Path, target: Path, settings: RepackSettings) -> None:
    """Write ``source`` as H.264 in MP4 without sound, frame by frame at the same times.

    The rotation that a player would apply is applied. The outcome is decoded, and its number
    of frames and their times are compared with those of the source.

    Args:
        source: A video.
        target: The file to write; of no use after an error.
        settings: How to encode.

    Raises:
        RepackError: The source is damaged or holds no video, or the outcome differs from it.
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
        raise RepackError(one_line(error)) from error
    if not len(expected) == len(seconds) == num_frames:
        raise RepackError(
            f'{len(expected)} frames were encoded, {len(seconds)} decoded and {num_frames} counted'
        )
    if np.abs(seconds - expected).max() > CLOCK_SECONDS:
        raise RepackError('its frames have other times than those of the source')


def _encode(
    reader: VideoFile, writer: av.container.OutputContainer, settings: RepackSettings
) -> np.ndarray:
    """Encode all frames; returns their times in seconds, the first one's 0."""
    stream = reader.stream
    rate = cast(Fraction, stream.average_rate or Fraction(25))
    output = None
    seconds: list[float] = []
    time_base = _time_base(stream)
    for frame in _frames(reader, rate):
        if output is None:
            output = _add_stream(writer, frame, rate, settings)
            output.codec_context.time_base = time_base
        seconds.append(_seconds(frame))
        writer.mux(output.encode(_resize(frame, output)))
    if output is None:
        raise RepackError('none of its frames can be decoded')
    if reader.num_errors:
        raise RepackError(f'it is damaged: {reader.num_errors} decoder errors')
    writer.mux(output.encode())
    times = _start_at_zero(seconds)
    promised = float((stream.duration or 0) * time_base)
    decoded = times[-1] + float(1 / rate)
    if decoded < DECODED_SHARE * promised:
        raise RepackError(f'it promises {promised:.1f} s, and {decoded:.1f} s can be decoded')
    return times


def _frames(reader: VideoFile, rate: Fraction) -> Iterator[av.VideoFrame]:
    """Decode frames, upright and at increasing times."""
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
    """Rotate a frame as its display matrix says."""
    turns = quarter_turns(frame)
    if not turns:
        return frame
    planes = np.rot90(frame.to_ndarray(format='yuv444p'), turns, axes=(1, 2))
    turned = type(frame).from_ndarray(np.ascontiguousarray(planes, np.uint8), format='yuv444p')
    turned.colorspace, turned.color_range = frame.colorspace, frame.color_range
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
    # decoders choose the way to RGB by these
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
    return cast(Fraction, stream.time_base)  # PyAV's own type acts as one


def _seconds(frame: av.VideoFrame) -> float:
    if frame.time is None:
        raise RepackError('a frame has no time')
    return frame.time


def _start_at_zero(seconds: list[float]) -> np.ndarray:
    return np.array(seconds) - (seconds[0] if seconds else 0)
