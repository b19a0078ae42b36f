"""A video with its people and their actions drawn in."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import av
import cv2
import numpy as np

from cvrl_mm.datasets.rotation import upright_image

from .video_detector import Detections

COLOUR, INK = (80, 220, 80), (0, 0, 0)  # BGR
LINE = 20  # pixels, at a picture height of 480


def write_annotated_video(
    video: Path,
    out: Path,
    detect: Callable[[int], Detections],
    actions: Sequence[str],
    threshold: float,
    top: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Detect once a second and draw what was found into the frames around it.

    Args:
        video: File to read.
        out: File to write, .mp4; it appears when it is whole.
        detect: Gives the people at a second of the video.
        actions: What the columns of their scores are called.
        threshold: Least score of an action that is drawn; a person without any is not.
        top: At most so many actions of a person.
        on_progress: Called with the number of frames done and to do, an estimate.

    Returns:
        How many boxes were drawn, counted once a second.

    Raises:
        ValueError: both are the same file.
        RuntimeError: the video cannot be read, or the other not be written.
    """
    check_out(out, video)
    try:
        container = av.open(str(video))
        stream = container.streams.video[0]
    except (OSError, av.FFmpegError, IndexError) as error:  # IndexError: no video in it
        raise RuntimeError(f'Cannot read the video {video}: {error}') from error
    rate = float(stream.average_rate or stream.guessed_rate or 25)
    total = stream.frames
    writer, now, drawn, boxes = None, None, [], 0
    with closing(container), unfinished(out) as part:
        for number, frame in enumerate(container.decode(stream)):
            image = upright_image(frame, 'bgr24')
            if (second := int(number / rate + 0.5)) != now:
                now = second
                drawn = confident(detect(now), actions, threshold, top)
                boxes += len(drawn)
            if writer is None:
                writer = open_writer(part, rate, image)
            writer.write(draw(image, drawn))
            on_progress(number + 1, max(total, number + 1))
        if writer is None:
            raise RuntimeError(f'The video {video} holds no frame.')
        writer.release()
    return boxes


def check_out(out: Path, video: Path) -> None:
    """See, before hours of work, that a file can be written beside the video.

    Raises:
        ValueError: it is the video itself.
        RuntimeError: there is no folder for it.
    """
    if out.resolve() == video.resolve():
        raise ValueError(f'{out} is the video itself; name another file to write.')
    if out.is_dir() or not out.parent.is_dir():
        raise RuntimeError(f'Cannot write {out}; name a file that ends in .mp4 in a folder.')


@contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """Give a name to write to; the file gets its own when it is whole, and goes at an error."""
    # the suffix stays: the writer tells the format by it
    part = out.with_name(f'.{out.stem}.{os.getpid()}{out.suffix}')
    try:
        yield part
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def open_writer(out: Path, rate: float, image: np.ndarray) -> cv2.VideoWriter:
    """Open a video for frames like this one.

    Raises:
        RuntimeError: it cannot be written.
    """
    size = image.shape[1], image.shape[0]
    writer = cv2.VideoWriter(str(out), cv2.VideoWriter.fourcc(*'mp4v'), rate, size)
    if not writer.isOpened():
        raise RuntimeError(
            f'Cannot write a video that ends in {out.suffix!r} in {out.parent}; name a file that '
            'ends in .mp4 in a folder of yours.'
        )
    return writer


def confident(
    found: Detections, actions: Sequence[str], threshold: float, top: int
) -> list[tuple[np.ndarray, list[str]]]:
    """Choose what to draw: boxes with the lines of text beside them."""
    people = []
    for box, scores in zip(found.boxes, found.scores, strict=True):
        best = [i for i in np.argsort(-scores, kind='stable')[:top] if scores[i] >= threshold]
        if best:
            people.append((box, [f'{actions[i]} {scores[i]:.2f}' for i in best]))
    return people


def draw(image: np.ndarray, people: list[tuple[np.ndarray, list[str]]]) -> np.ndarray:
    """Draw boxes and their lines into a frame, (H, W, 3) BGR uint8, in place."""
    height, width = image.shape[:2]
    scale = max(height / 480, 0.5)
    line, thickness = round(LINE * scale), max(round(2 * scale), 1)
    for box, lines in people:
        left, top, right, bottom = (box * [width, height, width, height]).round().astype(int)
        cv2.rectangle(image, (left, top), (right, bottom), COLOUR, thickness)
        for row, text in enumerate(lines, 1):
            end = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale / 2, 1)[0][0]
            below = top + row * line
            cv2.rectangle(image, (left, below - line), (left + end, below), COLOUR, -1)
            at = (left, below - line // 4)
            cv2.putText(image, text, at, cv2.FONT_HERSHEY_SIMPLEX, scale / 2, INK, 1, cv2.LINE_AA)
    return image
