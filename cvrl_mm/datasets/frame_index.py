"""Index the frames of a video file without decoding it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import av
import numpy as np

# Containers that store a presentation time for each frame.
TIMED_FORMATS = {'mov', 'matroska', 'flv'}
# Start code of a VOP, a frame in MPEG-4. AVI files may pack two VOPs into one packet, followed by a
# short placeholder packet, or repeat a frame by a placeholder packet alone.
VOP_CODE = b'\0\0\1\xb6'
PLACEHOLDER_BYTES = 19
# Share of the duration in the header of a file; a shorter file is truncated.
PRESENT_SHARE = 0.95
FIELD_SHARE = 0.75  # of the usual time between two frames; a field comes after half of it


@dataclass(frozen=True)
class FrameIndex:
    """The packets of a video in the order of the file, which is the decoding order.

    Attributes:
        pts: Presentation time of each packet's frame in units of the time base, (P,) int64.
        is_key: Whether decoding can start at the packet, (P,) bool.
        shown: Index of the packet of each frame, in presentation order, (N,) int64.
        start: Index of the last packet from which decoding yields the frame, in presentation
            order, (N,) int64.
    """

    pts: np.ndarray
    is_key: np.ndarray
    shown: np.ndarray
    start: np.ndarray


def index_frames(
    container: av.container.InputContainer, stream: av.VideoStream, packets: Iterable[av.Packet]
) -> tuple[FrameIndex | list[int | None] | None, bool]:
    """Read all packets of a video, without decoding them.

    Frames are identified by their presentation time if the container stores it (MP4, Matroska,
    FLV, and MPEG-TS without damage), or if the presentation order is the order of the file. In all
    doubtful cases they are counted from the start instead: missing or repeated times, times that
    start again, as after a broken connection, frames shown before the first key frame, repeated
    frames, and palettes.

    Args:
        container: An open file.
        stream: Its video stream.
        packets: All packets of the stream in the order of the file, without empty ones.

    Returns:
        The index of the frames, and whether the file is truncated, as far as it can be seen. If the
        frames must be counted, the index is their times, (N,), where an unknown time is None; or
        None if they can only be found by decoding.

    Raises:
        av.FFmpegError: The file cannot be read.
    """
    codec = stream.codec_context.codec.canonical_name
    formats = set(container.format.name.split(','))
    rows = []
    num_vops = num_packed = num_placeholders = 0
    is_damaged = is_truncated = False
    for p in packets:
        is_damaged |= p.is_corrupt
        is_cut = p.is_corrupt and bool(formats & TIMED_FORMATS)  # the last packet
        is_hidden = p.is_discard or is_cut
        if codec == 'vp8':
            is_hidden |= not bytes(p)[0] & 0x10
        elif codec == 'mpeg4':
            # the second VOP of a packet is only decoded if another packet follows
            num_packed += num_vops == 2
            num_vops = bytes(p).count(VOP_CODE)
            num_placeholders += p.size <= PLACEHOLDER_BYTES
        is_truncated |= is_cut
        rows.append((p.pts, p.dts, p.duration, p.is_keyframe, is_hidden))
    if not rows:
        return [], False
    pts, dts, durations, is_key, hidden = zip(*rows, strict=True)
    expected = PRESENT_SHARE * (container.duration or 0) / av.time_base  # of the longest stream
    if formats & {'mov', 'matroska'} and _end(pts, durations) * stream.time_base < expected:
        container.seek(0)
        others = [p for p in container.demux() if p.size]
        ends = (_end([p.pts], [p.duration]) * p.time_base for p in others)
        is_truncated |= max(ends) < expected
    decoded = [time for time in dts if time is not None]
    is_plain = not num_packed and not num_placeholders and num_vops < 2
    is_plain &= decoded == sorted(decoded)
    is_paletted = has_palette(stream)
    if None not in pts and is_plain and is_key[0] and not is_paletted:
        index = _build(*map(np.array, (pts, is_key, hidden)))
        in_order = index is not None and (np.diff(index.shown) == 1).all()
        is_timed = formats & TIMED_FORMATS or (in_order and not stream.codec_context.has_b_frames)
        if not is_timed and 'mpegts' in formats and not is_damaged:
            steps = np.diff(np.sort(pts))  # some packets may hold one of the two fields of a frame
            is_timed = (steps >= np.median(steps) * FIELD_SHARE).all()
        if is_timed:
            return index, is_truncated
    is_countable = ('avi' in formats or is_paletted) and not any(hidden)
    is_countable &= num_placeholders == num_packed
    # AVI has the times at which frames are decoded; the n-th frame is shown a constant time later
    return list(dts) if is_countable else None, is_truncated


def _end(pts: Sequence[int | None], durations: Sequence[int | None]) -> int:
    return max((p or 0) + (d or 0) for p, d in zip(pts, durations, strict=True))


def has_palette(stream: av.VideoStream) -> bool:
    """Return whether frames refer to a palette, which often comes with the first packet alone."""
    pixels = stream.codec_context.format  # not pix_fmt, which crashes PyAV 17 if it is unknown
    return pixels is not None and pixels.name == 'pal8'


def _build(pts: np.ndarray, is_key: np.ndarray, is_hidden: np.ndarray) -> FrameIndex | None:
    """Order the frames by time; return None if times do not identify them."""
    if len(np.unique(pts)) < len(pts) or pts[~is_hidden].min(initial=pts[0]) < pts[0]:
        return None
    order = np.argsort(pts)
    shown = order[~is_hidden[order]]
    # Frames after a key frame in the file that are shown before it may refer to earlier frames.
    keys = np.flatnonzero(is_key)
    nearest = np.searchsorted(keys, shown, 'right') - 1
    while (is_leading := pts[keys[nearest]] > pts[shown]).any():
        nearest[is_leading] -= 1
    return FrameIndex(pts, is_key, shown, keys[nearest])
