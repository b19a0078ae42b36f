"""Read folders of numbered images, such as ``img_00001.jpg``, as videos."""

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from reprlib import repr as short
from typing import Any, BinaryIO

import cv2
import numpy as np

from ..io import RATE_FILE, rate_file
from .reader import UnreadableVideoError, VideoFile

FRAME = re.compile(r'(?!\.)(.*?)([0-9]+)\.(?:jpe?g|png|bmp|webp)', re.I)
USUAL = 'img_'  # MMAction2 writes optical flow beside these images


class FrameFolder(VideoFile):
    """A folder of numbered images that is read like a video file.

    The file ``fps.txt`` in this folder, or in one above it, states the frames per second. Image n
    is shown at n / fps seconds; where numbers are missing, the image before is shown for longer.
    Only requested images are read. They are scaled to the size of the first one that is read.
    Files whose names begin with a dot are skipped.

    Args:
        folder: Path of the folder.

    Raises:
        UnreadableVideoError: There are no numbered images, images of several names or two of one
            number; or their rate is unknown.
    """

    def __init__(self, folder: str | Path) -> None:
        self.name = str(folder)
        with self._errors():
            found = [match for name in os.listdir(folder) if (match := FRAME.fullmatch(name))]
            names = {match[1] for match in found}
            if USUAL in names:
                found = [match for match in found if match[1] == USUAL]
            elif len(names) != 1:
                kinds = short(sorted(names))
                raise ValueError(f'it needs one kind of numbered images, not {kinds}')
            images = sorted((int(match[2]), match[0]) for match in found)
            for (number, file), (following, other) in pairwise(images):
                if number == following:
                    raise ValueError(f'{file} and {other} have one number; move one kind away')
            self.stated_rate = self.rate = frame_rate(folder)
        numbers, self.files = zip(*images, strict=True)
        self.num_frames = len(numbers)
        self.times = np.subtract(numbers, numbers[0]) / self.stated_rate
        if self.num_frames > 1:
            self.rate = (self.num_frames - 1) / self.times[-1]
        self.is_truncated, self.num_errors, self._index, self._last_error = False, 0, None, ''
        self.prepare, self._stored_size = np.ascontiguousarray, None

    def frames(self) -> Generator[Any, None, None]:
        """Read all images."""
        yield from map(self.to_image, self.files)

    def numbered_frames(self) -> Iterator[tuple[int, Any]]:
        """Yield the index and the file of each image."""
        return enumerate(self.files)

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

    def _read_from_start(self, wanted: list[int]) -> dict[int, np.ndarray]:
        return {n: self.to_image(self.files[n]) for n in wanted}


def open_video(
    source: str | Path | BinaryIO, name: str | None = None, strict: bool = False
) -> VideoFile:
    """Open a video file, or a folder of frames; see :class:`VideoFile` for the arguments."""
    if isinstance(source, str | Path) and os.path.isdir(source):
        return FrameFolder(source)
    return VideoFile(source, name, strict)


def is_frame_folder(folder: str | Path, files: Iterable[str]) -> bool:
    """Return whether a folder with these files has numbered images and a file with their rate."""
    return any(map(FRAME.fullmatch, files)) and rate_file(folder).is_file()


def frame_rate(folder: str | Path) -> float:
    """Read the frames per second of a folder of frames, such as ``15`` or ``30000/1001``.

    Raises:
        ValueError: There is no :func:`.rate_file`, or it holds something else.
    """
    file = rate_file(folder)
    if not file.is_file():
        raise ValueError(
            f'write its frames per second into {RATE_FILE}, in it or in a folder above it'
        )
    text = file.read_text('utf-8-sig', errors='replace').strip()
    with suppress(ValueError, ZeroDivisionError, OverflowError):
        if 0 < (rate := float(Fraction(text))) < np.inf:
            return rate
    raise ValueError(f'{file} holds {text[:40]!r}, and not a number such as 15 or 30000/1001')
