"""Person boxes for any videos, from any of mmdet's detectors."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from mmdet.apis import inference_detector
from mmdet.models import BaseDetector
from mmengine.logging import MMLogger

from cvrl_mm.detection.ava_sources import probe_video

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

    A key frame that cannot be decoded is left out and named in the log: one damaged spot does
    not cost what hours have found.

    Args:
        detector: Of ``mmdet.apis.init_detector``; one of its classes is 'person'.
        videos: Files; their names without suffix are the movies'.
        wanted: Key frames as (movie, second); without it every whole second of every video.
        start: Second of the movie at which its file begins.
        min_score: Of a person that is kept.
        on_progress: Called with the number of frames done and to do.

    Returns:
        For 'MOVIE,TTTT' the boxes, surest first, as fractions and with their scores, (N, 5);
        N is 0 where nobody was found.

    Raises:
        ValueError: the detector knows no person, a file is no video, or a wanted second is not
            in the file.
        RuntimeError: no key frame at all can be decoded.
    """
    person = person_class(detector)
    frames = list(key_frames(videos, None if wanted is None else set(wanted), start))
    proposals = {}
    for done, (path, second) in enumerate(frames, 1):
        key = f'{path.stem},{second:04d}'
        try:
            image = read_frames(str(path), [second - start])[0]
        except RuntimeError as error:
            MMLogger.get_current_instance().warning(f'Left out {key}: {error}')
        else:
            proposals[key] = find_people(detector, image, person, min_score)
        on_progress(done, len(frames))
    if not proposals:
        raise RuntimeError(f'None of {len(frames)} key frames can be decoded; see the log.')
    return proposals


def key_frames(
    videos: Iterable[Path], wanted: set[tuple[str, int]] | None, start: int
) -> Iterable[tuple[Path, int]]:
    """List (file, second) for ``make_proposals``."""
    left = set(wanted or ())
    for path in videos:
        source = probe_video(str(path))
        if source is None:
            raise ValueError(f'{path} is no readable video.')
        there = range(start, start + int(np.ceil(source.seconds)))
        for second in there:
            if wanted is None or (path.stem, second) in wanted:
                left.discard((path.stem, second))
                yield path, second
    if left:
        movie, second = min(left)
        raise ValueError(
            f'{len(left)} of {len(wanted or ())} wanted key frames are in none of the videos, the '
            f'first one is {movie},{second:04d}; name more videos, or the second at which they '
            'start.'
        )


def person_class(detector: BaseDetector) -> int:
    """Look up which of a detector's classes is a person.

    Raises:
        ValueError: none is.
    """
    names = list(detector.dataset_meta.get('classes') or ())
    if 'person' not in names:
        raise ValueError(f"The detector's classes hold no 'person': {names}.")
    return names.index('person')


def find_people(
    detector: BaseDetector, image: np.ndarray, person: int, min_score: float
) -> np.ndarray:
    """Detect people in one picture.

    Args:
        detector: Of ``mmdet.apis.init_detector``.
        image: (H, W, 3) RGB uint8.
        person: Number of their class.
        min_score: Of a person that is kept.

    Returns:
        Boxes as fractions, with their scores, surest first, (N, 5).
    """
    found = inference_detector(detector, image[..., ::-1]).pred_instances.cpu().numpy()
    kept = (found.labels == person) & (found.scores >= min_score)
    boxes, scores = found.bboxes[kept], found.scores[kept]
    height, width = image.shape[:2]
    boxes = np.clip(boxes / [width, height, width, height], 0, 1)
    order = np.argsort(-scores, kind='stable')
    return np.c_[boxes, scores][order].astype(np.float32)
