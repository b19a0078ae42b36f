"""Keep the decoded frames of a set of videos in one file that all loaders share."""

import json
import logging
import math
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import cv2
import numpy as np
from mmengine.logging import print_log
from rich.console import Console

from ..io import PART, differing, locked, made_from, replacing
from ..processes import usable_cores
from ..progress import progress
from .decoding import read
from .frame_folder import open_video
from .reader import UnreadableVideoError

NAME = 'frames.bin'
LENGTH_BYTES = 8  # at the end: the length of the JSON text before it


@dataclass(frozen=True)
class StoredVideo:
    """A video of a :class:`FrameStore`, which can be used like a :class:`VideoFile`.

    Attributes:
        frames: All frames, (N, H, W, 3) RGB uint8, read-only.
        times: Times of the frames in seconds since the first one, (N,).
        rate: Frames per second.
    """

    frames: np.ndarray
    times: np.ndarray
    rate: float

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.frames)

    def read(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Copy frames, (H, W, 3) each, in any order and with repetitions."""
        return list(self.frames[np.asarray(indices, np.int64)])

    def close(self) -> None:
        """Do nothing; the file stays mapped for other videos."""


class FrameStore:
    """The decoded frames of a set of videos in one file.

    The file is mapped into memory, so that all workers and ranks of a machine share one copy in the
    page cache. It holds the frames and times of each video, then a JSON text with the place of each
    video, and the length of this text. Videos that cannot be decoded as a whole
    are missing in it; they are read from their files.

    Args:
        path: A file that :func:`open_store` has written.

    Attributes:
        about: The state of the files and the size of the frames that were stored.
        num_bytes: Size of the file.

    Raises:
        OSError: There is no such file.
        ValueError: The file is damaged or incomplete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = np.asarray(np.memmap(path, np.uint8, 'r'))  # a view that is fast to slice
        self.num_bytes = len(self._bytes)
        end = max(0, self.num_bytes - LENGTH_BYTES)
        length = int.from_bytes(self._bytes[end:].tobytes(), 'little')
        index = json.loads(self._bytes[max(0, end - length) : end].tobytes())
        self.about: dict = index['about']
        self._videos: dict[str, list] = index['videos']

    def __reduce__(self) -> tuple:  # a worker that is spawned maps the file itself
        return FrameStore, (self._path,)

    def __len__(self) -> int:
        """Return the number of videos."""
        return len(self._videos)

    def get(self, filename: str) -> StoredVideo | None:
        """Return a video, or None if it is not stored."""
        place = self._videos.get(filename)
        if place is None:
            return None
        start, *shape, rate = place
        end = start + 3 * math.prod(shape)
        frames = self._bytes[start:end].reshape(*shape, 3)
        return StoredVideo(frames, self._bytes[end : end + 8 * len(frames)].view(float), rate)


def open_store(
    videos: Sequence[str],
    folder: str | Path,
    short_side: int | None = None,
    timeout_seconds: float | None = None,
) -> FrameStore | None:
    """Open the store of a set of videos; decode them all if there is none.

    The store is written again if a video, the set or ``short_side`` has changed since, and if the
    file is damaged. It is renamed when it is complete; after an interruption it is written anew.
    Other processes, such as the other ranks, wait for the one that writes. A process that has
    opened a store keeps it until its end.

    By default frames are stored as they are decoded. With ``short_side``, larger frames are reduced
    to this size by averaging. Twice the side of the encoder's input loses nothing that a crop
    shows: one of a quarter of the frame's area still has as many pixels as the input.

    Args:
        videos: Paths of the videos.
        folder: Folder of the file, one per set of videos.
        short_side: Largest short side of the stored frames, in pixels.
        timeout_seconds: Longest time for decoding one video; it is missing in the store otherwise.

    Returns:
        The store, or None if there is no room for it or the folder cannot be written.
    """
    folder, names = Path(folder), sorted(set(videos))
    about = made_from(names, short_side=short_side)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, wait=True):
            store = _current(folder / NAME, about)
            if store is None:
                _write(folder / NAME, names, about, timeout_seconds)
                store = FrameStore(folder / NAME)
    except OSError as error:
        text = f'Videos are decoded for each sample, as their frames cannot be stored: {error}'
        print_log(text, 'current', logging.WARNING)
        return None
    size = f'{store.num_bytes / 1e9:.2g} GB'
    print_log(f'Frames of {len(store)} of {len(names)} videos: {size} in {folder}', 'current')
    return store


def free_bytes(folder: Path) -> float:
    """Return the free bytes of a folder's disk or of the memory, whichever is less.

    The limits of Linux and of the container are known.
    """
    free = [shutil.disk_usage(folder).free]
    with suppress(OSError):
        found = re.search(r'MemAvailable: *(\d+) kB', Path('/proc/meminfo').read_text())
        free += [1024 * int(found[1])] if found else []
    with suppress(OSError, ValueError):  # "max" without a limit
        free.append(int(Path('/sys/fs/cgroup/memory.max').read_text()))
    return min(free)


def _current(path: Path, about: dict) -> FrameStore | None:
    with suppress(FileNotFoundError, ValueError, KeyError):
        store = FrameStore(path)
        return None if differing(store.about, about) else store
    return None


def _write(path: Path, names: list[str], about: dict, timeout_seconds: float | None) -> None:
    for left in path.parent.glob(f'.{path.stem}.*{PART}*'):
        left.unlink()  # gigabytes of a process that was killed
    lock = Lock()
    index: dict[str, list] = {}

    def decode(results: dict) -> dict:
        with open_video(results['filename']) as video:
            video.prepare = lambda image: _reduced(image, about['short_side'])
            frames = np.stack(video.read(range(video.num_frames)))
            times = video.times if video.rate else np.zeros(len(frames))
            return dict(frames=frames, times=times, rate=video.rate)

    def add(name: str) -> None:
        with suppress(UnreadableVideoError):  # reported when the video is drawn
            video = read(decode, dict(filename=name), timeout_seconds)
            with lock:
                index[name] = [file.tell(), *video['frames'].shape[:3], video['rate']]
                file.write(video['frames'])
                file.write(video['times'].astype(float))

    with (
        progress('Storing decoded frames', Console(stderr=True)) as show,
        replacing(path) as part,
        part.open('wb') as file,
        ThreadPoolExecutor(usable_cores()) as pool,  # decoding releases Python's lock
    ):
        for done, _ in enumerate(pool.map(add, names), 1):
            show(done, len(names))
        text = json.dumps(dict(about=about, videos=index)).encode()
        file.write(text + len(text).to_bytes(LENGTH_BYTES, 'little'))


def _reduced(image: np.ndarray, short_side: int | None) -> np.ndarray:
    """Return an image, (H, W, 3), whose short side is at most ``short_side``."""
    image = np.ascontiguousarray(image)
    scale = min(1, (short_side or np.inf) / min(image.shape[:2]))
    if scale == 1:
        return image
    height, width = (round(scale * side) for side in image.shape[:2])
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
