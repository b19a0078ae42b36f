"""Read frames of video files with PyAV."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from .frame_index import FrameCount, FrameIndex, index_frames
from .open_video import OpenVideo
from .rotation import quarter_turns
from .video_reading import UnreadableVideoError

# Decoders for which skipping non-reference frames can be switched per packet.
SKIPPING_DECODERS = ('h264', 'mpeg4', 'mpeg1video', 'mpeg2video')
# Frame times have rounding errors: a time up to 1 ms before a frame's start belongs to this frame.
SLACK_SECONDS = 1e-3
# PyAV before version 17 converts colours in one thread and does not have this argument.
ONE_THREAD = dict(threads=1) if int(av.__version__.split('.')[0]) >= 17 else {}


class VideoFile:
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
        num_threads: Number of decoding threads. The default suits data loaders, which already
            have one process per core.
        strict: Count errors that the decoder detects (:attr:`num_errors`) and drop the damaged
            frames. By default the decoder conceals errors if it can.

    Raises:
        UnreadableVideoError: The file does not exist, is not a regular file, or contains no video.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        name: str | None = None,
        num_threads: int = 1,
        strict: bool = False,
    ) -> None:
        self.name = str(source) if name is None else name
        self._video = OpenVideo(source, self.name, num_threads, strict)
        self._reformatter = VideoReformatter()
        self._stored_size: tuple[int, int] | None = None  # width and height of all images

    @property
    def stream(self) -> av.VideoStream:
        """The video stream of PyAV."""
        return self._video.stream

    @property
    def num_errors(self) -> int:
        """Number of decoder errors so far; see ``strict``."""
        return self._video.num_errors

    @cached_property
    def num_frames(self) -> int:
        """Number of frames.

        Raises:
            UnreadableVideoError: The file is truncated or has no frames.
        """
        if isinstance(self._index, FrameIndex):
            num_frames = len(self._index.shown)
        elif self._index.num_frames is not None:
            num_frames = self._index.num_frames
        else:
            num_frames = sum(1 for _ in self.frames())
        if not num_frames:
            raise UnreadableVideoError(self.name, 'it has no frames')
        return num_frames

    def __len__(self) -> int:
        return self.num_frames

    @property
    def rate(self) -> float:
        """Average number of frames per second; 0 if it is unknown."""
        return float(self.stream.average_rate or self.stream.guessed_rate or 0)

    @cached_property
    def _first_frame(self) -> tuple[tuple[int, int], int]:
        """Width and height of the images before rotation, and the turns of :attr:`rotation`."""
        with self._video.errors(), closing(self.frames()) as frames:
            frame = next(frames)
            return self._image_size(frame), quarter_turns(frame)

    @property
    def rotation(self) -> int:
        """Number of counter-clockwise quarter turns that make a stored frame upright."""
        return self._first_frame[1]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright frames in pixels."""
        size, turns = self._first_frame
        return size[::-1] if turns % 2 else size

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
        wanted, places = np.unique(np.asarray(indices, np.int64), return_inverse=True)
        if not len(wanted):
            return []
        if wanted[0] < 0 or wanted[-1] >= self.num_frames:
            raise IndexError(
                f'{self.name} has {self.num_frames} frames; there is none at '
                f'{wanted[0] if wanted[0] < 0 else wanted[-1]}.'
            )
        with self._video.errors():
            if isinstance(self._index, FrameIndex):
                found = self._read_by_time(self._index, wanted)
            else:
                found = self._read_by_count(wanted)
        missing = [int(n) for n in wanted if n not in found]
        if missing:
            raise UnreadableVideoError(
                self.name,
                f'{len(missing)} of {len(wanted)} frames cannot be decoded, the first one at '
                f'{missing[0]} of {self.num_frames}{self._video.last_error}',
            )
        return pick_frames(found, wanted[places].tolist())

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
        with self._video.errors():
            images = self._read_at(times)
        if len(images) < len(times):
            raise UnreadableVideoError(
                self.name, f'it shows nothing around {times[0]:.1f} seconds{self._video.last_error}'
            )
        return images

    def frames(self) -> Generator[av.VideoFrame, None, None]:
        """Decode the whole video.

        Yields:
            Stored frames (not rotated) in presentation order, with their times.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        self._video.rewind()
        with self._video.errors():
            yield from self._video.decode(self._video.demux())

    def to_image(self, frame: av.VideoFrame, format: str = 'rgb24') -> np.ndarray:
        """Convert a stored frame into an upright image.

        Args:
            frame: A frame of :meth:`frames`.
            format: 'rgb24' or 'bgr24'.

        Returns:
            (H, W, 3) uint8.

        Raises:
            RuntimeError: The rotation of the video is not a multiple of 90 degrees.
        """
        size = self._image_size(frame)
        image = self._reformatter.reformat(frame, *size, format, **ONE_THREAD).to_ndarray()
        turns = quarter_turns(frame)
        return np.ascontiguousarray(np.rot90(image, turns)) if turns else image

    def close(self) -> None:
        """Close the file."""
        self._video.close()

    def __enter__(self) -> 'VideoFile':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _index(self) -> FrameIndex | FrameCount:
        self._video.rewind()
        with self._video.errors():
            packets = self._video.demux()
            return index_frames(self._video.container, self.stream, packets)

    def _read_by_time(self, index: FrameIndex, wanted: np.ndarray) -> dict[int, np.ndarray]:
        """Decode frames (N,) from their key frames; return those that could be decoded."""
        by_pts = {int(index.pts[index.shown[n]]): int(n) for n in wanted}
        found: dict[int, np.ndarray] = {}
        spans = _merge(index.start[wanted].tolist(), index.shown[wanted].tolist())
        for first, last in spans:
            self._decode_span(index, first, last, by_pts, found)
        if len(found) < len(wanted):  # for example, a packet is wrongly marked as a key frame
            self._video.rewind()
            self._decode_span(index, 0, spans[-1][1], by_pts, found)
        return found

    def _decode_span(
        self,
        index: FrameIndex,
        first: int,
        last: int,
        by_pts: dict[int, int],
        found: dict[int, np.ndarray],
    ) -> None:
        """Decode packets ``first`` to ``last`` and add the requested frames to ``found``."""
        context = self.stream.codec_context
        can_skip = context.codec.canonical_name in SKIPPING_DECODERS

        def packets() -> Iterator[av.Packet]:
            for place, packet in self._packets_from(index, first):
                if packet.pts != index.pts[place]:
                    raise ValueError('its packets differ between two readings')
                if can_skip:
                    context.skip_frame = 'DEFAULT' if packet.pts in by_pts else 'NONREF'
                yield packet
                if place == last:
                    return

        for frame in self._video.decode(packets()):
            n = None if frame.pts is None else by_pts.get(frame.pts)
            if n is not None and n not in found:
                found[n] = self.to_image(frame)

    def _packets_from(self, index: FrameIndex, first: int) -> Iterator[tuple[int, av.Packet]]:
        """Yield packets with their indices, from packet ``first`` or a key frame before it."""
        for time in (int(index.pts[first]), int(index.dts[first])):
            try:
                self._video.seek(time)
                packets = self._video.demux()
                packet = next(packets)
            except (StopIteration, av.FFmpegError):
                continue
            places = np.flatnonzero(index.pts == packet.pts)
            if len(places) and places[0] <= first and index.is_key[places[0]]:
                return enumerate(chain([packet], packets), int(places[0]))
        self._video.rewind()
        return enumerate(self._video.demux())

    def _read_by_count(self, wanted: np.ndarray) -> dict[int, np.ndarray]:
        """Decode frames (N,) from the start; return those that could be decoded."""
        self._video.rewind()
        left = set(wanted.tolist())
        found: dict[int, np.ndarray] = {}
        for n, frame in enumerate(self._video.decode(self._video.demux())):
            if n in left:
                found[n] = self.to_image(frame)
            if n == wanted[-1]:
                break
        return found

    def _read_at(self, times: np.ndarray) -> list[np.ndarray]:
        stream = self.stream
        if stream.time_base is None:
            raise ValueError('its times have no unit')
        start, unit = stream.start_time or 0, float(stream.time_base)
        offset = start + int(max(times[0], 0) / unit)
        self._video.seek(offset)
        images = self._decode_at(times, start, unit)
        if not images:  # after a seek to the end of an MPEG-TS or FLV, there is nothing to read
            self._video.rewind()
            images = self._decode_at(times, start, unit)
        return images

    def _decode_at(self, times: np.ndarray, start: int, unit: float) -> list[np.ndarray]:
        """Decode from the current position; time stamps begin at ``start``, in ``unit`` seconds."""
        images: list[np.ndarray] = []
        shown = None  # the previous frame
        for frame in self._video.decode(self._video.demux()):
            if frame.pts is None:
                raise ValueError('a frame has no time; convert the file with ffmpeg')
            time = (frame.pts - start) * unit
            num_shown = int(np.searchsorted(times, time)) - len(images)
            if shown is not None and num_shown > 0:
                images += self._repeat(shown, num_shown)
            if len(images) == len(times):
                return images
            shown = frame
        if shown is not None:  # the video ends before the last time
            images += self._repeat(shown, len(times) - len(images))
        return images

    def _image_size(self, frame: av.VideoFrame) -> tuple[int, int]:
        """Return width and height of all images before rotation, those of the first frame given."""
        self._stored_size = self._stored_size or (frame.width, frame.height)
        return self._stored_size

    def _repeat(self, frame: av.VideoFrame, times: int) -> list[np.ndarray]:
        image = self.to_image(frame)
        return [image, *(image.copy() for _ in range(times - 1))]


def pick_frames(
    frames: Mapping[int, np.ndarray] | np.ndarray, indices: Sequence[int]
) -> list[np.ndarray]:
    """Return frames by index; repeated ones are copied, because Flip modifies its input."""
    images: list[np.ndarray] = []
    used = set()
    for index in indices:
        images.append(frames[index].copy() if index in used else frames[index])
        used.add(index)
    return images


def _merge(starts: list[int], places: list[int]) -> list[tuple[int, int]]:
    """Merge frames into spans of packets that are decoded without a seek.

    Args:
        starts: For each frame, the packet at which decoding starts.
        places: For each frame, its own packet.

    Returns:
        First and last packet of each span, in ascending order, without overlap.
    """
    spans: list[tuple[int, int]] = []
    for first, last in sorted(zip(starts, places, strict=True)):
        if spans and first <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        else:
            spans.append((first, last))
    return spans
