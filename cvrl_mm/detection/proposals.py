"""Files of person boxes at key frames, in the format of the proposals for AVA.

Such a file is a pickled dict ``{'VIDEO,TTTT': array}``. TTTT is the second of the movie with four
digits. Each row of the array is a person, ``x1, y1, x2, y2[, score]``, as fractions of the frame.
"""

import codecs
import io
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..io import printable

TOLERANCE = 0.1  # of coordinates beyond the border of the frame; pixels are beyond it


# All that a file can call, by the names in it: modules differ between versions of Python and numpy
_CALLABLES: dict[str, Any] = dict(
    ndarray=np.ndarray,
    dtype=np.dtype,
    _reconstruct=np.zeros(0).__reduce_ex__(2)[0],
    _frombuffer=np.zeros(0).__reduce_ex__(5)[0],
    encode=codecs.encode,  # how protocols 0 to 2 store bytes
    bytes=bytes,
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _CALLABLES:
            raise pickle.UnpicklingError(f'it asks for {module}.{name}')
        return _CALLABLES[name]


def load_proposals(path: str | Path) -> dict[str, np.ndarray]:
    """Load person boxes without executing code from the file.

    Args:
        path: A file such as ``ava_dense_proposals_val.FAIR.recall_93.9.pkl``.

    Returns:
        Boxes, (N, 4), or (N, 5) with the score of the person in the last column, by 'VIDEO,TTTT'.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file contains anything but boxes.
    """
    content = io.BytesIO(Path(path).read_bytes())
    try:
        loaded = _Unpickler(content, encoding='latin1').load()
        if not all(isinstance(boxes, np.ndarray) for boxes in loaded.values()):
            raise ValueError('it has values that are no arrays')
        return {key: _check(key, boxes) for key, boxes in loaded.items()}
    except Exception as error:  # a damaged file causes any
        raise ValueError(
            f'{path} is not a pickled dict from "VIDEO,TTTT" to arrays (N, 4) or (N, 5): '
            f'{printable(error)}.'
        ) from error


def save_proposals(proposals: dict[str, np.ndarray], path: str | Path) -> None:
    """Write person boxes that this module and MMAction2 can read.

    Raises:
        ValueError: A key or an array does not have the format.
    """
    checked = {key: _check(key, boxes) for key, boxes in proposals.items()}
    Path(path).write_bytes(pickle.dumps(checked, protocol=4))


def _check(key: str, boxes: np.ndarray) -> np.ndarray:
    boxes = np.asarray(boxes, np.float32)
    if not boxes.size:
        boxes = np.zeros((0, 5), np.float32)
    if not re.fullmatch(r'.+,\d{4,}', key):
        raise ValueError(f'the key {key!r} is not one like "VIDEO,0902"')
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 5) or not np.isfinite(boxes).all():
        raise ValueError(f'the boxes of {key!r} have the shape {boxes.shape}, or are not finite')
    if not (abs(boxes[:, :4] - 0.5) <= 0.5 + TOLERANCE).all():
        raise ValueError(f'the boxes of {key!r} are not fractions of the frame, from 0 to 1')
    return boxes


def select_people(
    boxes: np.ndarray, min_score: float = 0.9, most: int = 1000, at_least_one: bool = True
) -> np.ndarray:
    """Select the person boxes in which actions are detected.

    Args:
        boxes: Boxes as fractions of the frame, (N, 4), or (N, 5) with the scores of the persons.
        min_score: Lowest score of a box that is used.
        most: Maximal number of boxes.
        at_least_one: Use the best box if all scores are lower.

    Returns:
        Boxes, (K, 4), clipped at the border of the frame, without empty ones.
    """
    if boxes.shape[1] == 5 and len(boxes):
        scores = boxes[:, 4]
        boxes = boxes[scores >= (min(min_score, scores.max()) if at_least_one else min_score)]
    boxes = np.clip(boxes[:most, :4], 0, 1)
    return boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)]
