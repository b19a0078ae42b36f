"""Detect people in videos with a detector of mmdet."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from mmdet.apis import inference_detector
from mmdet.models import BaseDetector
from mmengine.logging import MMLogger

from .ava_annotations import ActionRow
from .ava_sources import probe_video
from .read_ava_clip import read_frames


def make_proposals(
    detector: BaseDetector,
    videos: Iterable[Path],
    wanted: Iterable[tuple[str, int]] | None = None,
    start: int = 0,
    min_score: float = 0.05,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, np.ndarray]:
    """Detect people at key frames.

    Key frames that cannot be decoded are omitted and named in the log.

    Args:
        detector: Detector from ``mmdet.apis.init_detector`` with a class 'person'.
        videos: Video files. A file name without its suffix is the name of the movie.
        wanted: Key frames as (movie, second). None for every whole second of every video.
        start: Second of the movie at which its file starts.
        min_score: Lowest score of a box that is kept.
        on_progress: Called with the number of finished key frames and the total.

    Returns:
        Boxes as fractions of the frame with their scores, (N, 5), by 'MOVIE,TTTT', in descending
        order of the score. N is 0 if nobody was detected.

    Raises:
        ValueError: The detector has no class 'person', a file is not a video, or none of the
            files contains a wanted second.
        RuntimeError: None of the key frames can be decoded.
    """
    person = person_class(detector)
    frames = list(key_frames(videos, None if wanted is None else set(wanted), start))
    proposals = {}
    for done, (path, second) in enumerate(frames, 1):
        key = f'{path.stem},{second:04d}'
        try:
            image = read_frames(str(path), [second - start])[0]
        except RuntimeError as error:
            MMLogger.get_current_instance().warning(f'Skipped {key}: {error}')
        else:
            proposals[key] = find_people(detector, image, person, min_score)
        on_progress(done, len(frames))
    if not proposals:
        raise RuntimeError(f'None of {len(frames)} key frames can be decoded; see the log.')
    return proposals


def wanted_key_frames(
    videos: Iterable[Path], rows: Sequence[ActionRow] | None, seconds: Sequence[int] | None
) -> set[tuple[str, int]] | None:
    """Select key frames by an annotation file, a range of seconds, or both.

    Args:
        videos: Video files.
        rows: Annotations; only their movies are selected. None for all videos.
        seconds: First and last second of the selected range. None for the annotated seconds.

    Returns:
        Key frames as (movie, second), or None for all seconds of all videos if neither is given.

    Raises:
        ValueError: The range is empty.
    """
    if seconds is None:
        return None if rows is None else {(row.video, row.second) for row in rows}
    first, last = seconds
    if first > last:
        raise ValueError(f'The first second, {first}, comes after the last one, {last}.')
    movies = {path.stem for path in videos} if rows is None else {row.video for row in rows}
    return set(product(movies, range(first, last + 1)))


def key_frames(
    videos: Iterable[Path], wanted: set[tuple[str, int]] | None, start: int
) -> Iterable[tuple[Path, int]]:
    """List (file, second) for ``make_proposals``."""
    left = set(wanted or ())
    for path in videos:
        source = probe_video(str(path))
        if source is None:
            raise ValueError(f'{path} is not a readable video.')
        there = range(start, start + int(np.ceil(source.seconds)))
        for second in there:
            if wanted is None or (path.stem, second) in wanted:
                left.discard((path.stem, second))
                yield path, second
    if left:
        movie, second = min(left)
        raise ValueError(
            f'{len(left)} of {len(wanted or ())} wanted key frames are in none of the videos, the '
            f'first one is {movie},{second:04d}; name more videos, or the second at which their '
            'files start.'
        )


def person_class(detector: BaseDetector) -> int:
    """Return the index of a detector's class 'person'.

    Raises:
        ValueError: The detector has no such class.
    """
    names = list(detector.dataset_meta.get('classes') or ())
    if 'person' not in names:
        raise ValueError(f"The detector has no class 'person' among its classes: {names}.")
    return names.index('person')


def find_people(
    detector: BaseDetector, image: np.ndarray, person: int, min_score: float
) -> np.ndarray:
    """Detect people in one image.

    Args:
        detector: Detector from ``mmdet.apis.init_detector``.
        image: (H, W, 3) RGB uint8.
        person: Index of the class 'person'.
        min_score: Lowest score of a box that is kept.

    Returns:
        Boxes as fractions of the image with their scores, in descending order, (N, 5).
    """
    found = inference_detector(detector, image[..., ::-1]).pred_instances.cpu().numpy()
    kept = (found.labels == person) & (found.scores >= min_score)
    boxes, scores = found.bboxes[kept], found.scores[kept]
    height, width = image.shape[:2]
    boxes = np.clip(boxes / [width, height, width, height], 0, 1)
    order = np.argsort(-scores, kind='stable')
    return np.c_[boxes, scores][order].astype(np.float32)
