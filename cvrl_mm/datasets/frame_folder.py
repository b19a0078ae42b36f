"""Read folders of numbered images, such as ``img_00001.jpg``, as videos."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import cv2
import numpy as np

from .reader import UnreadableVideoError, VideoFile

FRAME = re.compile(r'(.*?)([0-9]+)\.(?:jpe?g|png|bmp|webp)', re.I)
RATE_FILE = 'fps.txt'
USUAL = 'img_'  # MMAction2 writes optical flow beside these images


class FrameFolder:
    """A folder of numbered images that is read like a :class:`VideoFile`.

    The file ``fps.txt`` in this folder, or in one above it, states the frames per second. Image n
    is shown at n / fps seconds; where numbers are missing, the image before is shown for longer.
    Only requested images are read. They are scaled to the size of the first one that is read.

    Args:
        folder: Path of the folder.

    Attributes:
        num_frames: Number of images.
        times: Times in seconds since the first image, (N,).
        rate: Average number of images per second.

    Raises:
        UnreadableVideoError: There are no numbered images, or images of several names, or their
            rate is unknown.
    """

    is_truncated = False
    num_errors = 0

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
        self.prepare: Callable[[np.ndarray], np.ndarray] = np.ascontiguousarray
        self._size: tuple[int, int] | None = None  # width and height of all images

    def read(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Read images, (H, W, 3) RGB uint8 each; see :meth:`VideoFile.read`."""
        order = np.asarray(indices, np.int64).tolist()
        found = {n: self.to_image(n) for n in sorted(set(order))}
        return [found[n].copy() for n in order]

    def to_image(self, number: int) -> np.ndarray:
        """Read one image.

        Raises:
            UnreadableVideoError: The image is damaged.
        """
        image = cv2.imread(os.path.join(self.name, self._files[number]), cv2.IMREAD_COLOR)
        if image is None:
            raise UnreadableVideoError(self.name, f'{self._files[number]} cannot be read')
        self._size = self._size or (image.shape[1], image.shape[0])
        if image.shape[1::-1] != self._size:
            image = cv2.resize(image, self._size)
        return self.prepare(image[..., ::-1])

    def frames(self) -> Iterator[np.ndarray]:
        """Read all images."""
        return map(self.to_image, range(self.num_frames))

    def numbered_frames(self) -> Iterator[tuple[int, int]]:
        """Yield the index of each image twice: as its index, and for :meth:`to_image`."""
        return ((n, n) for n in range(self.num_frames))

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> 'FrameFolder':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_video(
    source: str | Path | BinaryIO, name: str | None = None, strict: bool = False
) -> VideoFile:
    """Open a video file, or a folder of frames; the arguments are those of :class:`VideoFile`."""
    if isinstance(source, str | Path) and os.path.isdir(source):
        return cast(VideoFile, FrameFolder(source))  # has its interface
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
