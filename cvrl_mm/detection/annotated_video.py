"""Draw detected people and their actions into a video."""

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np

from cvrl_mm.datasets import VideoFile

from ..io import replacing
from .video_detector import Detections

COLOUR, INK = (80, 220, 80), (0, 0, 0)  # BGR
LINE = 20  # height of a line of text in pixels, in a frame of height 480


def write_annotated_video(
    video: Path,
    out: Path,
    detect: Callable[[int], Detections],
    actions: Sequence[str],
    threshold: float,
    top: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Detect once per second and draw the detections into the frames around this second.

    The output has all frames at the mean rate of the video.

    Args:
        video: File to read.
        out: Mp4 file to write. It is written under a temporary name until it is complete.
        detect: Returns the detections at a second of the video.
        actions: Names of the actions, in the order of their scores.
        threshold: Lowest score of an action that is drawn. A person without such an action is
            not drawn.
        top: Largest number of actions per person.
        on_progress: Called with the number of finished frames and the estimated total.

    Returns:
        Number of drawn boxes, counted once per second.

    Raises:
        ValueError: ``video`` and ``out`` are the same file.
        RuntimeError: The video cannot be read, or the output cannot be written.
    """
    check_out(out, video)
    writer, now, drawn, boxes, start = None, None, [], 0, None
    with VideoFile(video) as reader, replacing(out) as part:
        rate = reader.rate or 25
        total = reader.stream.frames
        for number, frame in enumerate(reader.frames()):
            image = reader.to_image(frame, 'bgr24')
            time = number / rate if frame.time is None else frame.time
            start = time if start is None else start
            if (second := int(time - start + 0.5)) != now:
                now = second
                drawn = confident(detect(now), actions, threshold, top)
                boxes += len(drawn)
            if writer is None:
                writer = open_writer(part, rate, image)
            writer.write(draw(image, drawn))
            on_progress(number + 1, max(total, number + 1))
        if writer is None:
            raise RuntimeError(f'The video {video} has no frames.')
        writer.release()
    return boxes


def check_out(out: Path, video: Path) -> None:
    """Check that the output can be written, before the detection starts.

    Raises:
        ValueError: The output is the video itself.
        RuntimeError: The folder of the output does not exist.
    """
    if out.resolve() == video.resolve():
        raise ValueError(f'{out} is the video itself; name another file to write.')
    if out.is_dir() or not out.parent.is_dir():
        raise RuntimeError(f'Cannot write {out}; name a file that ends in .mp4 in a folder.')


def open_writer(out: Path, rate: float, image: np.ndarray) -> cv2.VideoWriter:
    """Open a video file for frames of the size of ``image``.

    Raises:
        RuntimeError: The file cannot be written.
    """
    size = image.shape[1], image.shape[0]
    writer = cv2.VideoWriter(str(out), cv2.VideoWriter.fourcc(*'mp4v'), rate, size)
    if not writer.isOpened():
        raise RuntimeError(
            f'Cannot write a video that ends in {out.suffix!r} in {out.parent}; name a file that '
            'ends in .mp4 in a writable folder.'
        )
    return writer


def confident(
    found: Detections, actions: Sequence[str], threshold: float, top: int
) -> list[tuple[np.ndarray, list[str]]]:
    """Select the boxes to draw, each with its lines of text."""
    people = []
    for box, scores in zip(found.boxes, found.scores, strict=True):
        best = [i for i in np.argsort(-scores, kind='stable')[:top] if scores[i] >= threshold]
        if best:
            people.append((box, [f'{actions[i]} {scores[i]:.2f}' for i in best]))
    return people


def draw(image: np.ndarray, people: list[tuple[np.ndarray, list[str]]]) -> np.ndarray:
    """Draw boxes and their lines of text into a frame, (H, W, 3) BGR uint8, in place."""
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
