"""Read frames of video files, which may be broken, with PyAV."""

import os
import re
import stat
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from itertools import chain, dropwhile, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import numpy as np
from av.stream import Disposition
from av.video.frame import PictureType
from av.video.reformatter import VideoReformatter

from ..text import one_line, printable
from .frame_index import FrameIndex, has_palette, index_frames

# FFmpeg's formats that hold video. Others, such as playlists, can name further files to open.
FORMATS = (
    *('mov', 'matroska', 'avi', 'flv', 'mpegts', 'mpeg', 'mpegvideo', 'asf', 'ogg', 'ivf', 'nut'),
    *('mxf', 'dv', 'rm', 'wtv', 'h264', 'hevc', 'm4v', 'obu', 'yuv4mpegpipe'),
)
# Decoders for which skipping non-reference frames can be switched per packet.
SKIPPING_DECODERS = ('h264', 'mpeg4', 'mpeg1video', 'mpeg2video')
# Frame times have rounding errors: a time up to 1 ms before a frame's start belongs to this frame.
SLACK_SECONDS = 1e-3
# Formats whose packets have wrong times after a seek, if frames are stored in another order.
UNTIMED_FORMATS = ('avi', 'mpeg')
# How much earlier than a frame to seek. Seeks go by the time of decoding, which is earlier than
# the time of showing, and seeks in an MPEG-TS can go to the next key frame.
SEEK_SECONDS = (0.5, 30)
# A longer time between two frames is a pause of the recording, not a part of its frame rate.
PAUSE_SECONDS = 10
CONFIRMING_FRAMES = 32
# Type and length of the message in H.264 with the orientation of all frames, which only the first
# one may have; where these bytes occur before it, the first frame is decoded to look
ORIENTATION, MESSAGES_BYTES = re.compile(rb'\x2f[\3-\7]'), 2000
# What helps if a file takes too long to open, because it must be decoded for its index
REMUX = 'ffmpeg -i FILE -c copy NEW.mp4 makes it open faster'


class UnreadableVideoError(RuntimeError):
    """A video file that cannot be read.

    Args:
        filename: Path of the file.
        reason: The error of opening or decoding, in one line.
    """

    def __init__(self, filename: str, reason: str) -> None:
        super().__init__(filename, reason)
        self.filename = filename
        self.reason = reason

    def __str__(self) -> str:
        return (
            f'{printable(self.filename)} cannot be read: {printable(self.reason)}. '
            'cvrl check writes a list without such files.'
        )


class VideoFile(AbstractContextManager):
    """Read frames of a video by their index in presentation order.

    Frame n is the n-th frame of decoding the whole file. Decoding starts at the nearest key frame,
    skips non-reference frames that are not requested, and converts only requested frames to RGB.
    Files whose frames cannot be identified by their times are decoded from the start. If the frame
    size changes within a file, all frames are scaled to the size of the first converted frame.

    Opening reads only the header. The first use of :attr:`num_frames` or :meth:`read` also reads
    all packets, usually without decoding them. Use this class as a context manager, or call
    :meth:`close`.

    Args:
        source: Path of a regular file, or a seekable binary file object.
        name: Name of the file in error messages. Default: the path.
        strict: Count errors that the decoder detects (:attr:`num_errors`) and drop the damaged
            frames. By default the decoder conceals errors if it can.

    Attributes:
        container: PyAV's container.
        stream: PyAV's description of the video.
        num_errors: Number of errors of the decoder so far.
        is_truncated: Whether the end of the file is missing, as far as this can be seen without
            decoding. Read :attr:`num_frames` before.

    Raises:
        UnreadableVideoError: The file does not exist, is not a regular file, has an unsupported
            format, or contains no video.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        name: str | None = None,
        strict: bool = False,
    ) -> None:
        self.name = str(source) if name is None else name
        self.num_errors, self.is_truncated = 0, False
        self._source, self._strict = source, strict
        self._last_error = ''  # in the last call of _decode, in brackets
        self._reformatter = VideoReformatter()
        self._first_oriented: av.VideoFrame | None = None
        self._stored_size: tuple[int, int] | None = None  # width and height of all images
        # Applied to each decoded image; resizing here saves memory
        self.prepare: Callable[[np.ndarray], np.ndarray] = np.ascontiguousarray
        with self._errors():
            self._open()

    @cached_property
    def num_frames(self) -> int:
        """Number of frames.

        Raises:
            UnreadableVideoError: The file cannot be read or has no frames.
        """
        num_frames = len(self._pts)
        if not num_frames:
            raise UnreadableVideoError(self.name, 'it has no frames')
        return num_frames

    @cached_property
    def rate(self) -> float:
        """Average number of frames per second; 0 if it is unknown.

        It is the rate in the header, which in some containers is an estimate from the first
        frames, unless the times of the frames contradict it by more than one frame and 2 %.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        stated = float(self.stream.average_rate or self.stream.guessed_rate or 0)
        steps = np.diff([] if self._times is None else self._times)
        steps = steps[steps <= PAUSE_SECONDS]
        count, span = len(steps), float(steps.sum())
        is_right = stated > 0 and abs(stated * span - count) <= max(1, 0.02 * count)
        return stated if is_right or not span else count / span

    @cached_property
    def times(self) -> np.ndarray:
        """Times at which the frames are shown, in seconds since the first one, (N,).

        If the file has no valid times, the rate is taken as constant.
        """
        return self._times if self._times is not None else np.arange(self.num_frames) / self.rate

    def read(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Decode frames; each distinct frame is decoded once.

        Args:
            indices: Frame indices in presentation order, in any order and with repetitions, (N,).

        Returns:
            One upright frame per index, (H, W, 3) RGB uint8. They do not share memory.

        Raises:
            IndexError: An index is outside of the video.
            UnreadableVideoError: A frame cannot be decoded.
        """
        order = np.asarray(indices, np.int64).tolist()
        wanted = sorted(set(order))
        if not wanted:
            return []
        if wanted[0] < 0 or wanted[-1] >= self.num_frames:
            what = f'{self.num_frames} frames, not {wanted[0]} to {wanted[-1]}'
            raise IndexError(f'{printable(self.name)} has {what}.')
        with self._errors():
            if isinstance(self._index, FrameIndex):
                found = self._read_by_time(self._index, wanted)
            else:
                found = self._read_from_start(wanted)
        if missing := [n for n in wanted if n not in found]:
            raise UnreadableVideoError(
                self.name,
                f'{len(missing)} of {len(wanted)} frames cannot be decoded, the first one at '
                f'{missing[0]} of {self.num_frames}{self._last_error}',
            )
        last = {n: place for place, n in enumerate(order)}
        return [found[n] if place == last[n] else found[n].copy() for place, n in enumerate(order)]

    def read_at(self, seconds: Sequence[float] | np.ndarray) -> list[np.ndarray]:
        """Decode the frames that are shown at given times, usually without reading the whole file.

        Args:
            seconds: Ascending times since the start of the video. Times outside of the video give
                the first or last frame.

        Returns:
            One upright frame per time, (H, W, 3) RGB uint8. They do not share memory.

        Raises:
            UnreadableVideoError: There is nothing to decode, or a frame has no time.
        """
        times = np.asarray(seconds, float) + SLACK_SECONDS
        if self.container.format.name in UNTIMED_FORMATS or has_palette(self.stream):
            return self.read((np.searchsorted(self.times, times) - 1).clip(0))
        start, unit = self.stream.start_time or 0, self.stream.time_base
        images: list[np.ndarray] = []
        with self._errors():
            for earlier in SEEK_SECONDS:
                if not images and times[0] > earlier:
                    self._seek(start + int((times[0] - earlier) / unit))
                    images = self._decode_at(times, latest=times[0])
            if not images:
                self._rewind()
                images = self._decode_at(times)
        if len(images) < len(times):
            raise UnreadableVideoError(
                self.name, f'it shows nothing around {times[0]:.1f} seconds{self._last_error}'
            )
        return images

    def end_seconds(self) -> float:
        """Return the end of the last frame in seconds since the start of the video.

        A file that is not complete ends before its header states. Only the last packets are read,
        unless the file has none there, and nothing is decoded.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        start, unit = self.stream.start_time or 0, self.stream.time_base
        stated = (self.container.duration or 0) / av.time_base
        ends: list[float] = []
        with self._errors():
            for begin in (max(0, stated - SEEK_SECONDS[-1]), 0):
                if not ends:
                    self._seek(start + int(begin / unit))
                    packets = self._demux()
                    shown = ((p.dts if p.pts is None else p.pts, p.duration or 0) for p in packets)
                    ends = [float((t - start + d) * unit) for t, d in shown if t is not None]
        return max(ends, default=0.0)

    def frames(self) -> Generator[av.VideoFrame, None, None]:
        """Decode the whole video.

        Yields:
            Stored frames (not rotated) in presentation order, with their times.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        with self._errors():
            self._rewind()
            yield from self._decode(self._demux())

    def numbered_frames(self) -> Iterator[tuple[int, av.VideoFrame]]:
        """Decode the whole video as :meth:`frames`, and give each frame its index for :meth:`read`.

        The indices of frames that cannot be decoded are left out.
        """
        if isinstance(self._index, FrameIndex):
            numbers = {pts: n for n, pts in enumerate(self._pts)}
            return ((numbers[f.pts], f) for f in self.frames() if f.pts in numbers)
        return enumerate(self.frames())

    def to_image(self, frame: av.VideoFrame) -> np.ndarray:
        """Convert a frame of :meth:`frames` into an upright image, (H, W, 3) RGB uint8.

        Raises:
            ValueError: See :func:`upright`.
        """
        size = self._stored_size = self._stored_size or (frame.width, frame.height)
        image = self._reformatter.reformat(frame, *size, 'rgb24', threads=1).to_ndarray()
        return self.prepare(upright(image, self.oriented(frame)))

    def oriented(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return the frame whose orientation holds for a frame: itself, or the first one."""
        return frame if 'DISPLAYMATRIX' in frame.side_data else self._first_oriented or frame

    def close(self) -> None:
        """Close the file."""
        self.container.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _index(self) -> FrameIndex | list[int | None] | None:
        """How frames are found: by their packets, by counting (a list of times), or None."""
        with self._errors():
            self._rewind()
            packets = self._demux()
            first = list(islice(packets, 1))
            data = b''.join(map(bytes, first))
            packets = chain(first, packets)
            index, self.is_truncated = index_frames(self.container, self.stream, packets)
            if ORIENTATION.search(data, 0, MESSAGES_BYTES):
                self._first_oriented = next(iter(self._first_frames(1)), None)
            # Does each packet hold a frame, and not one of its two fields?
            if self.container.format.name == 'mpegts' and isinstance(index, FrameIndex):
                decoded = [frame.pts for frame in self._first_frames(CONFIRMING_FRAMES)]
                if decoded != index.pts[index.shown[:CONFIRMING_FRAMES]].tolist():
                    index = None
        if self.is_truncated:
            what = f'{printable(self.name)} is truncated; what is left of it is used.'
            warnings.warn(what, stacklevel=2)
        return index

    def _first_frames(self, number: int) -> list[av.VideoFrame]:
        self._rewind()
        frames = list(islice(self._decode(self._demux()), number))
        self._rewind()
        return frames

    @cached_property
    def _pts(self) -> list[int | None]:
        """Time of each frame in units of the time base, None if it is unknown."""
        if isinstance(self._index, FrameIndex):
            return self._index.pts[self._index.shown].tolist()
        if self._index is None:
            return [frame.pts for frame in self.frames()]
        return self._index

    @cached_property
    def _times(self) -> np.ndarray | None:
        """Times of the frames in seconds since the first one, (N,), if they are valid."""
        if not self._pts or None in self._pts:
            return None
        steps = np.diff(np.array(self._pts))
        again = steps < 0  # where another recording is appended, whose times start again
        steps[again] = np.median(steps) if len(steps) else 0
        return np.append(0, np.cumsum(steps)) * float(self.stream.time_base)

    def _read_from_start(self, wanted: list[int]) -> dict[int, np.ndarray]:
        """Decode the video up to the last wanted frame; return the decoded ones by their number."""
        places = set(wanted)
        found: dict[int, np.ndarray] = {}
        for n, frame in self.numbered_frames():
            if n in places:
                found[n] = self.to_image(frame)
            if n >= wanted[-1]:
                break
        return found

    def _read_by_time(self, index: FrameIndex, wanted: list[int]) -> dict[int, np.ndarray]:
        """Decode frames from their key frames; return the decoded ones."""
        by_pts: dict[int | None, int] = {int(index.pts[index.shown[n]]): n for n in wanted}
        spans: list[list[int]] = []  # first and last packet of each span without a seek
        for first, last in sorted(zip(index.start[wanted], index.shown[wanted], strict=True)):
            if spans and first <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], last)
            else:
                spans.append([first, last])
        found: dict[int, np.ndarray] = {}
        for first, last in spans:
            found |= self._read_span(index, first, last, by_pts)
        if len(found) < len(wanted):  # for example, a packet is wrongly marked as a key frame
            found |= self._read_from_start(wanted)
        return found

    def _read_span(
        self, index: FrameIndex, first: int, last: int, by_pts: dict[int | None, int]
    ) -> dict[int, np.ndarray]:
        """Decode packets, from the key frame ``first`` to ``last``; return the requested frames.

        There are none if the first packet only claims to hold a key frame, as by an H.264 encoder
        that refreshes the picture gradually.
        """
        context = self.stream.codec_context
        can_skip = context.codec.canonical_name in SKIPPING_DECODERS
        packets = self._packets_from(index, first)
        key = next(packets)

        def needed() -> Iterator[av.Packet]:
            for packet in chain([key], packets):
                if can_skip:
                    context.skip_frame = 'DEFAULT' if packet.pts in by_pts else 'NONREF'
                yield packet
                if packet.pts == index.pts[last]:
                    return

        has_key, found = False, {}
        for frame in self._decode(needed()):
            has_key |= frame.pts == key.pts and self._is_key(frame)
            if frame.pts in by_pts:
                found[by_pts[frame.pts]] = self.to_image(frame)
        return found if has_key else {}

    def _packets_from(self, index: FrameIndex, first: int) -> Iterator[av.Packet]:
        """Read packets from packet ``first`` or a key frame before it."""
        for earlier in (0, *SEEK_SECONDS):  # only in an MPEG-TS, a seek may find a later packet
            with suppress(av.FFmpegError):
                self._seek(int(index.pts[first] - earlier / self.stream.time_base))
                for packet in (packets := self._demux()):
                    place = int(np.argmax(index.pts == packet.pts))
                    if place > first or index.pts[place] != packet.pts:
                        break
                    if index.is_key[place]:
                        return chain([packet], packets)
        self._rewind()
        return self._demux()

    def _decode_at(self, times: np.ndarray, latest: float = np.inf) -> list[np.ndarray]:
        """Decode the frames at times (N,) from the current position; return up to N images.

        With ``latest``, frames before the first key frame are left out, as they may be damaged.
        There are none if this one is shown only after ``latest``.
        """
        start, unit = self.stream.start_time or 0, float(self.stream.time_base)

        def time(frame: av.VideoFrame) -> float:
            if frame.pts is None:
                raise ValueError('a frame has no time; convert the file with ffmpeg')
            return (frame.pts - start) * unit

        frames: Iterator[Any] = self._decode(self._demux())
        if latest < np.inf:
            frames = dropwhile(lambda frame: not self._is_key(frame), frames)
        images: list[np.ndarray] = []
        for frame, following in pairwise(chain(frames, [None])):  # None: the end of the video
            if not images and time(frame) > latest:
                break
            end = np.inf if following is None else time(following)
            num_shown = int(np.searchsorted(times, end))
            images += [self.to_image(frame) for _ in range(num_shown - len(images))]
            if len(images) == len(times):
                break
        return images

    def _is_key(self, frame: av.VideoFrame) -> bool:
        return frame.key_frame or frame.pict_type == PictureType.I

    def _open(self) -> None:
        # Only options of the container: PyAV before version 19 crashes on FLV and MPEG files if
        # it gets options for streams that these formats announce late.
        options = dict(format_whitelist=','.join(FORMATS))
        source = self._source
        if isinstance(source, str | Path):
            if not stat.S_ISREG(os.stat(source).st_mode):
                raise ValueError('it is not a regular file')
            source = f'file:{source}'
            options['protocol_whitelist'] = 'file'
        else:
            source.seek(0)
        self.container = av.open(source, 'r', container_options=options)
        self._is_at_start = True
        stream = self.container.streams.best('video')
        if (
            not isinstance(stream, av.VideoStream)
            or stream.codec_context is None
            or Disposition.attached_pic in stream.disposition  # the cover of music
        ):
            raise ValueError('it holds no video, or there is no decoder for its video')
        context = stream.codec_context
        context.thread_count = 1  # data loaders have one process per core
        if self._strict:
            context.options = dict(err_detect='explode')
        self.stream = stream

    def _rewind(self) -> None:
        """Go to the start of the file."""
        if not self._is_at_start:
            self.close()  # otherwise the file stays open until Python collects garbage
            self._open()

    def _seek(self, time: int) -> None:
        """Go to a key frame near a time, in units of the stream's time base."""
        self._is_at_start = False
        self.container.seek(time, stream=self.stream)

    def _demux(self) -> Iterator[av.Packet]:
        """Read packets from the current position on.

        Empty packets are skipped: the end of the file, and requests to repeat the last frame.
        """
        self._is_at_start = False
        # PyAV does not release a packet if its generator is left without being closed.
        packets = cast('Generator[av.Packet, None, None]', self.container.demux(self.stream))
        with closing(packets):
            for packet in packets:
                if packet.size:
                    yield packet

    def _decode(self, packets: Iterable[av.Packet]) -> Iterator[av.VideoFrame]:
        """Decode packets, including delayed frames; packets with errors are skipped."""
        context = self.stream.codec_context
        self._last_error = ''
        for packet in chain(packets, [None]):  # None: the frames that the decoder has delayed
            if packet is None:
                context.skip_frame = 'DEFAULT'
            try:
                yield from context.decode(packet)
            except av.FFmpegError as error:
                self.num_errors += 1
                self._last_error = f' ({one_line(error)})'
        context.flush_buffers()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of broken files to :class:`UnreadableVideoError`."""
        try:
            yield
        except UnreadableVideoError:
            raise
        except (av.FFmpegError, OSError, ValueError, RuntimeError, MemoryError) as error:
            reason = str(error) if type(error) is ValueError else one_line(error)
            raise UnreadableVideoError(self.name, reason) from error


def upright(image: np.ndarray, frame: av.VideoFrame) -> np.ndarray:
    """Rotate and mirror an image as the display matrix of its frame states.

    Args:
        image: The stored image, (H, W, ...).
        frame: The frame.

    Returns:
        A view of the image.

    Raises:
        ValueError: The angle is not a multiple of 90 degrees.
    """
    matrix = frame.side_data.get('DISPLAYMATRIX')
    values = [0] if matrix is None else np.frombuffer(matrix, np.int32)[:5].tolist()
    if not any(values):  # a matrix of zeros, as some files have, changes nothing
        return image
    turns, remainder = divmod(frame.rotation, 90)
    if remainder:
        raise ValueError(f'it is rotated by {frame.rotation} degrees, not by a multiple of 90')
    turned = np.rot90(image, turns)
    a, b, _, c, d = values
    # The angle belongs to the first axis; in a mirrored image, the other one is reversed
    return np.flip(turned, turns % 2) if a * d < b * c else turned
