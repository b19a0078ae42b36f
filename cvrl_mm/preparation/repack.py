"""Encode videos again, so that random clips of them are decoded faster."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import cast

import av
import numpy as np

from ..datasets.lists import find_videos, parse_line, read_lines
from ..datasets.reader import UnreadableVideoError, VideoFile, upright
from ..io import claim_folder, file_stamp, is_current, journal, read_journals, replace_text
from ..options import RepackSettings
from ..text import one_line, printable
from .check import TIMEOUT_SECONDS, find_faults

CLOCK_SECONDS = 2e-3  # MP4 rounds the times of frames to its time base
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)  # EDQUOT: the quota of the user is used up
# Without the features of H.264 that are slowest to decode, and without references to B-frames, so
# that VideoFile can skip those between requested frames
X264 = {'tune': 'fastdecode', 'x264-params': 'b-pyramid=none'}
SETTINGS, FAILURES, FINISHED = 'repack.json', 'repack_failures.txt', '.finished'


def repack_video(source: Path, target: Path, settings: RepackSettings) -> None:
    """Encode a video as H.264 in MP4 without sound, with the same frames at the same times.

    Rotated videos become upright. The new video is decoded, and the number and the times of its
    frames are compared with the source's.

    Args:
        source: Path of the video.
        target: Path of the new video. It is incomplete after an error.
        settings: Settings of the encoder.

    Raises:
        UnreadableVideoError: The source cannot be read.
        ValueError: The source is damaged, or the new video differs from it.
        OSError: The target cannot be written; also ``av.FFmpegError``.
    """
    with VideoFile(source, strict=True) as reader, av.open(str(target), 'w') as writer:
        expected = _encode(reader, writer, settings)
    with VideoFile(target, strict=True) as outcome:
        num_decoded, times = sum(1 for _ in outcome.frames()), outcome.times
    if not len(expected) == num_decoded == len(times):
        raise ValueError(
            f'{len(expected)} frames were encoded, {num_decoded} decoded and {len(times)} counted'
        )
    if np.abs(times - expected).max() > CLOCK_SECONDS:
        raise ValueError('its frames have other times than in the source')


def _encode(
    reader: VideoFile, writer: av.container.OutputContainer, settings: RepackSettings
) -> np.ndarray:
    """Encode all frames; return their times in seconds since the first frame."""
    stream = reader.stream
    rate = cast(Fraction, stream.average_rate or Fraction(25))
    time_base = cast(Fraction, stream.time_base)  # PyAV declares another type
    output = None
    pts: list[int] = []
    for frame in _frames(reader, time_base):
        if output is None:
            output = _add_stream(writer, frame, rate, settings)
            output.codec_context.time_base = time_base
        pts.append(cast(int, frame.pts))
        small = frame.reformat(
            output.width, output.height, output.pix_fmt, interpolation='BICUBIC', threads=1
        )
        writer.mux(output.encode(small))
    if output is None:
        raise ValueError('none of its frames can be decoded')
    if reader.num_errors:
        raise ValueError(f'it is damaged: {reader.num_errors} decoder errors')
    writer.mux(output.encode())
    return (np.array(pts) - pts[0]) * float(time_base)


def _frames(reader: VideoFile, time_base: Fraction) -> Iterator[av.VideoFrame]:
    """Decode upright frames with the times at which they are read, which increase."""
    last = -1
    times = np.rint(reader.times / float(time_base)).astype(int).tolist()
    for number, frame in reader.numbered_frames():
        time = max(last + 1, times[min(number, len(times) - 1)])
        frame = _turn(reader, frame)
        frame.pts, frame.time_base, last = time, time_base, time
        frame.pict_type = 0  # the encoder chooses its key frames
        yield frame


def _turn(reader: VideoFile, frame: av.VideoFrame) -> av.VideoFrame:
    """Rotate and mirror a frame according to its display matrix."""
    oriented = reader.oriented(frame)
    if 'DISPLAYMATRIX' not in oriented.side_data:
        return frame
    planes = upright(frame.to_ndarray(format='yuv444p').transpose(1, 2, 0), oriented)
    planes = np.ascontiguousarray(planes.transpose(2, 0, 1))
    turned = type(frame).from_ndarray(planes, format='yuv444p')
    turned.colorspace, turned.color_range = frame.colorspace, frame.color_range
    return turned


def _add_stream(
    writer: av.container.OutputContainer,
    frame: av.VideoFrame,
    rate: Fraction,
    settings: RepackSettings,
) -> av.VideoStream:
    options = {**X264, 'crf': str(settings.crf)}
    output = writer.add_stream('libx264', rate=rate, options=options)
    output.width, output.height = settings.size(frame.width, frame.height)
    output.pix_fmt = 'yuvj420p' if frame.format.name.startswith('yuvj') else 'yuv420p'
    context = output.codec_context
    context.gop_size, context.thread_count = settings.key_frame_interval, 1
    # decoders use these for the conversion to RGB
    context.colorspace, context.color_range = frame.colorspace, frame.color_range
    return output


@dataclass(frozen=True)
class RepackReport:
    """The result of repacking a set of videos.

    Attributes:
        root: Folder of the videos.
        names: Path of each video in the new folder; None if there is no file.
        failures: Reasons by video, for videos that were copied without changes or cannot be read.
        num_skipped: Number of videos that an earlier run has repacked.
    """

    root: Path
    names: dict[str, str | None]
    failures: dict[str, str]
    num_skipped: int


def repack(
    source: Path,
    target: Path,
    settings: RepackSettings,
    root: Path | None = None,
    num_workers: int = 1,
    timeout_seconds: float = TIMEOUT_SECONDS,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> RepackReport | None:
    """Encode a set of videos again in another folder (:func:`repack_video`).

    A new file has a temporary name until it is complete and checked. A video that cannot be
    repacked is copied without changes, if it can be read, and listed in ``repack_failures.txt``.
    Videos that an earlier run has repacked are skipped, unless the original has been modified
    since; failures of an earlier run are retried. For a list, a list of the same name is written
    into the new folder.

    Args:
        source: A folder of videos, or a list with lines ``path`` or ``path label``.
        target: Output folder; a new folder, or of an earlier run with the same ``root`` and
            settings.
        settings: Settings of the encoder.
        root: Folder to which the paths of the list are relative. Default: the folder of the list.
        num_workers: Number of videos that are repacked at a time.
        timeout_seconds: Time limit per video.
        rank: Rank of this job; it repacks every ``size``-th video.
        size: Number of jobs that share the set. They may run at the same time; a last call without
            shares then finds the repacked videos, and handles the failed ones.
        on_progress: Called with the number of finished videos and the number of all videos of this
            share.

    Returns:
        New names and failures; None for a share.

    Raises:
        ValueError: A video is outside of ``root``, or the target is in ``root``, contains other
            files, or was started with another ``root`` or other settings.
        OSError: The disk is full, or a file cannot be written or copied.
    """
    if source.is_dir():
        root = source
        entries = [(path.relative_to(root).as_posix(), '') for path in find_videos(root)]
    else:
        root = root or source.parent
        entries = [parse_line(line, root=root) for line in read_lines(str(source))]
    videos = list(dict.fromkeys(os.path.normpath(path) for path, _ in entries))
    _check(root, videos, target)
    claim_folder(target, SETTINGS, dict(asdict(settings), root=str(root.resolve())))
    stamps = {video: file_stamp(root / video) for video in videos[rank::size]}  # before reading
    made = read_journals(target / FINISHED)
    todo = [
        video
        for video, stamp in stamps.items()
        if not is_current(target / new_name(video), stamp, made.get(video))
    ]
    with tempfile.TemporaryDirectory(prefix='.unfinished-', dir=target) as scratch:
        work = partial(_repack_one, root, target, Path(scratch), settings)
        outcomes = find_faults(todo, num_workers, timeout_seconds, work)
        num_skipped, failures = len(stamps) - len(todo), {}
        on_progress(num_skipped, len(stamps))
        # After an interrupt, closing() ends the processes before their folder is removed
        with closing(outcomes), journal(target / FINISHED) as note:
            for done, (place, outcome) in enumerate(outcomes, num_skipped + 1):
                if isinstance(outcome, OSError):  # the disk of the target is full
                    raise outcome
                if outcome is None:
                    note(todo[place], stamps[todo[place]])
                else:
                    failures[todo[place]] = outcome
                on_progress(done, len(stamps))
    if size > 1:
        return None
    names: dict[str, str | None] = {video: new_name(video) for video in videos}
    for video in failures:
        names[video] = video if (root / video).is_file() else None
        if names[video]:
            (target / video).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / video, target / video)
    noted = ''.join(f'{video}\t{why}\n' for video, why in failures.items())
    replace_text(target / FAILURES, noted)
    if not source.is_dir():
        new = ((names[os.path.normpath(path)], label) for path, label in entries)
        lines = (f'{name} {label}'.rstrip() for name, label in new if name)
        replace_text(target / source.name, ''.join(f'{line}\n' for line in lines))
    return RepackReport(root, names, failures, num_skipped)


def new_name(video: str) -> str:
    """Return the name of the repacked file; ``.mp4`` is appended to any other suffix."""
    return video if video.endswith('.mp4') else f'{video}.mp4'


def _check(root: Path, videos: list[str], target: Path) -> None:
    if target.resolve().is_relative_to(root.resolve()):
        raise ValueError(f'{target} is in {root}; choose a folder outside of it.')
    for video in videos:
        if os.path.isabs(video) or video.split(os.sep)[0] == os.pardir:
            raise ValueError(f'{printable(video)} is not in {root}; give a folder that holds all.')


def _repack_one(
    root: Path, target: Path, scratch: Path, settings: RepackSettings, video: str
) -> str | OSError | None:
    """Repack a video; return the reason of its failure, or an error that must end the run."""
    unfinished, finished = scratch / f'{os.getpid()}.mp4', target / new_name(video)
    try:
        repack_video(root / video, unfinished, settings)
        finished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.replace(finished)
        if finished != target / video:
            (target / video).unlink(missing_ok=True)  # the copy after an earlier failure
    except UnreadableVideoError as error:
        return error.reason
    except (av.FFmpegError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            return OSError(error.errno, error.strerror, str(unfinished))
        return str(error) if type(error) is ValueError else one_line(error)
    return None
