"""Demux and decode an open video file."""

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from errno import EINVAL
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import av

from .frame_index import TruncatedVideoError
from .video_reading import UnreadableVideoError, one_line

# FFmpeg's formats that hold video. Others, such as playlists, can name further files to open.
FORMATS = (
    *('mov', 'matroska', 'avi', 'flv', 'mpegts', 'mpeg', 'mpegvideo', 'asf', 'ogg', 'ivf', 'nut'),
    *('mxf', 'dv', 'rm', 'wtv', 'h264', 'hevc', 'm4v', 'obu', 'yuv4mpegpipe'),
)


class OpenVideo:
    """An open video with a read position.

    Only regular files and formats of :data:`FORMATS` are opened.

    Args:
        source: Path of a regular file, or a seekable binary file object.
        name: Name of the file in error messages.
        num_threads: Number of decoding threads.
        strict: Drop frames in which the decoder detects errors. By default the decoder conceals
            errors if it can.

    Attributes:
        container: PyAV's container.
        stream: PyAV's description of the video.
        num_errors: Number of errors of the decoder so far.
        last_error: The last error in the last call of :meth:`decode`, in brackets, or ''.

    Raises:
        UnreadableVideoError: The file does not exist, is not a regular file, has an unsupported
            format, or contains no video.
    """

    def __init__(
        self, source: str | Path | BinaryIO, name: str, num_threads: int = 1, strict: bool = False
    ) -> None:
        self.name = name
        self._source = source
        self._num_threads = num_threads
        self._strict = strict
        self.num_errors = 0
        self.last_error = ''
        self._open()

    def _open(self) -> None:
        with self.errors():
            # Only options of the container: PyAV before version 19 crashes on FLV and MPEG files if
            # it gets options for streams that these formats announce late.
            options = dict(format_whitelist=','.join(FORMATS))
            source = self._source
            if isinstance(source, str | Path):
                if not stat.S_ISREG(os.stat(source).st_mode):
                    raise UnreadableVideoError(self.name, 'it is not a regular file')
                source = f'file:{source}'
                options['protocol_whitelist'] = 'file'
            else:
                source.seek(0)
            try:
                container = av.open(source, 'r', container_options=options)
            except av.FFmpegError as error:
                if error.errno != EINVAL:
                    raise
                # FFmpeg found a format outside of FORMATS, for example MP3 in a damaged video
                raise UnreadableVideoError(
                    self.name,
                    'its format is not supported, or it is damaged; if it can be played, convert '
                    'it with ffmpeg',
                ) from error
            try:
                self.stream = self._video_of(container)
            except BaseException:
                container.close()
                raise
        self.container: av.container.InputContainer = container
        self._is_at_start = True

    def _video_of(self, container: av.container.InputContainer) -> av.VideoStream:
        stream = container.streams.best('video')
        if not isinstance(stream, av.VideoStream):
            raise UnreadableVideoError(self.name, 'it holds no video')
        context = stream.codec_context
        if context is None:
            raise UnreadableVideoError(self.name, 'there is no decoder for its video')
        context.thread_count, context.thread_type = self._num_threads, 'SLICE'
        if self._strict:
            context.options = dict(err_detect='explode')
        return stream

    def rewind(self) -> None:
        """Go to the start of the file."""
        if not self._is_at_start:
            self.close()  # otherwise the file stays open until Python collects garbage
            self._open()

    def seek(self, time: int) -> None:
        """Go to a key frame near a time, in units of the stream's time base."""
        self._is_at_start = False
        self.container.seek(time, stream=self.stream)

    def demux(self) -> Iterator[av.Packet]:
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

    def decode(self, packets: Iterable[av.Packet]) -> Iterator[av.VideoFrame]:
        """Decode packets, including delayed frames; packets with errors are skipped."""
        context = self.stream.codec_context
        self.last_error = ''
        for packet in chain(packets, [None]):  # None: the frames that the decoder has delayed
            if packet is None:
                context.skip_frame = 'DEFAULT'
            try:
                yield from context.decode(packet)
            except av.FFmpegError as error:
                self.num_errors += 1
                self.last_error = f' ({one_line(error)})'
        context.flush_buffers()

    def close(self) -> None:
        """Close the file."""
        self.container.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of PyAV for broken files to :class:`UnreadableVideoError`."""
        try:
            yield
        except UnreadableVideoError:
            raise
        except TruncatedVideoError as error:
            raise UnreadableVideoError(self.name, str(error)) from error
        except StopIteration:
            raise UnreadableVideoError(self.name, 'none of its frames can be decoded') from None
        except (av.FFmpegError, OSError, ValueError, RuntimeError, MemoryError) as error:
            raise UnreadableVideoError(self.name, one_line(error)) from error
