"""Read folders of numbered images, such as ``img_00001.jpg``, as videos."""

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import cv2
import numpy as np

from .reader import UnreadableVideoError, VideoFile

FRAME = re.compile(r'(.*?)([0-9]+)\.(?:jpe?g|png|bmp|webp)', re.I)
RATE_FILE = 'fps.txt'
USUAL = 'img_'  # MMAction2 writes optical flow beside these images


class FrameFolder(VideoFile):
    """A folder of numbered images that is read like a video file.

    The file ``fps.txt`` in this folder, or in one above it, states the frames per second. Image n
    is shown at n / fps seconds; where numbers are missing, the image before is shown for longer.
    Only requested images are read. They are scaled to the size of the first one that is read.

    Args:
        folder: Path of the folder.

    Raises:
        UnreadableVideoError: There are no numbered images, or images of several names, or their
            rate is unknown.
    """

    def __init__(self, folder: str | Path) -> None:
        self.name = str(folder)
        found = [match for name in os.listdir(folder) if (match := FRAME.fullmatch(name))]
        names = {match[1] for match in found}
        if USUAL in names:
            found = [match for match in found if match[1] == USUAL]
        elif len(names) != 1:
            raise UnreadableVideoError(self.name, f'it has {len(names)} kinds of numbered images')
        per_second = frame_rate(folder)
        if per_second is None:
            reason = f'write its frames per second into {RATE_FILE}, in it or in a folder above it'
            raise UnreadableVideoError(self.name, reason)
        numbers, self._files = zip(*sorted((int(m[2]), m[0]) for m in found), strict=True)
        self.num_frames = len(numbers)
        self.times = (np.array(numbers) - numbers[0]) / per_second
        self.rate = (len(numbers) - 1) / self.times[-1] if self.times[-1] > 0 else per_second
        self.is_truncated, self.num_errors, self._index, self._last_error = False, 0, None, ''
        self.prepare, self._stored_size = np.ascontiguousarray, None

    def frames(self) -> Generator[Any, None, None]:
        """Read all images."""
        yield from map(self.to_image, self._files)

    def numbered_frames(self) -> Iterator[tuple[int, Any]]:
        """Yield the index and the file of each image."""
        return enumerate(self._files)

    def to_image(self, frame: Any) -> np.ndarray:
        """Read a file.

        Raises:
            UnreadableVideoError: It is damaged.
        """
        image = cv2.imread(os.path.join(self.name, frame), cv2.IMREAD_COLOR)
        if image is None:
            raise UnreadableVideoError(self.name, f'{frame} cannot be read')
        self._stored_size = self._stored_size or (image.shape[1], image.shape[0])
        if image.shape[1::-1] != self._stored_size:
            image = cv2.resize(image, self._stored_size)
        return self.prepare(image[..., ::-1])

    def close(self) -> None:
        """Do nothing."""

    def _read_by_count(self, wanted: list[int]) -> dict[int, np.ndarray]:
        return {n: self.to_image(self._files[n]) for n in wanted}


def open_video(
    source: str | Path | BinaryIO, name: str | None = None, strict: bool = False
) -> VideoFile:
    """Open a video file, or a folder of frames; see :class:`VideoFile` for the arguments."""
    if isinstance(source, str | Path) and os.path.isdir(source):
        return FrameFolder(source)
    return VideoFile(source, name, strict)


def is_frame_folder(folder: str | Path, files: Iterable[str]) -> bool:
    """Return whether a folder with these files is a :class:`FrameFolder` of known rate."""
    return any(map(FRAME.fullmatch, files)) and frame_rate(folder) is not None


def frame_rate(folder: str | Path) -> float | None:
    """Read the number in the ``fps.txt`` in or above a folder; None if there is none."""
    for parent in (path := Path(os.path.abspath(folder)), *path.parents):
        if (file := parent / RATE_FILE).is_file():
            with suppress(ValueError):
                return rate if 0 < (rate := float(file.read_text())) < np.inf else None
            return None
    return None
