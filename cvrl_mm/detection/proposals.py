"""Files of person boxes at key frames, in the format of the proposals for AVA.

Such a file is a pickled dict ``{'VIDEO,TTTT': array}``. TTTT is the second of the movie with four
digits. Each row of the array is a person, ``x1, y1, x2, y2[, score]``, as fractions of the frame.
"""

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np

from ..io import printable

TOLERANCE = 0.1  # of coordinates beyond the border of the frame; pixels are beyond it


class _DType:
    """Stands for ``numpy.dtype``, and accepts only types of numbers."""

    def __init__(self, name: str, *flags: object) -> None:
        if not re.fullmatch('[fiu][1248]', name):
            raise pickle.UnpicklingError(f'it has an array of type {name!r}')
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1].replace('|', '='))


class _Array:
    """Stands for ``numpy.ndarray``, whose state is read here and not by numpy."""

    def __init__(self, *arguments: object) -> None:
        self.value = np.zeros((0, 5))

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, is_fortran, content = state
        if isinstance(content, str):  # written by Python 2
            content = content.encode('latin1')
        order: Literal['F', 'C'] = 'F' if is_fortran else 'C'
        self.value = np.frombuffer(content, dtype.dtype).reshape(shape, order=order)


def _from_buffer(content: bytes, dtype: _DType, shape: tuple, order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, dtype, order == 'F', content))
    return array


# All that a file can call, whatever the module that it names
_STAND_INS: dict[str, Any] = dict(
    ndarray=_Array,
    dtype=_DType,
    _reconstruct=_Array,
    _frombuffer=_from_buffer,
    bytes=lambda: b'',
)


# In Python, as the C implementation allocates memory for the largest index that a file names
class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined]
    # Without sets, and with names as the only keys: hashes of nested tuples can take 2**n steps
    stack: list[Any]
    metastack: list[list[Any]]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = {
        code: load
        for code, load in pickle._Unpickler.dispatch.items()
        if bytes([code]) not in (pickle.FROZENSET, pickle.ADDITEMS)
    }

    def __init__(self, file: IO[bytes], num_bytes: int) -> None:
        super().__init__(file, encoding='latin1')
        self.left = num_bytes  # that calls of encode may still copy

    def find_class(self, module: str, name: str) -> object:
        if name == 'encode':  # how protocols 0 to 2 store bytes
            return self._encode
        if name not in _STAND_INS:
            raise pickle.UnpicklingError(f'it asks for {module}.{name}')
        return _STAND_INS[name]

    def _encode(self, text: str, encoding: str) -> bytes:
        self.left -= len(text)
        if self.left < 0:
            raise pickle.UnpicklingError('it repeats a text too often')
        return text.encode('latin1')

    def _add_to_dict(self) -> None:
        items = self.pop_mark()
        if not all(isinstance(key, str) for key in items[::2]):
            raise pickle.UnpicklingError('it has keys that are no names')
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _add_item(self) -> None:
        self.metastack.append(self.stack[:-2])
        self.stack = self.stack[-2:]
        self._add_to_dict()

    def _make_dict(self) -> None:
        self.metastack[-1].append({})
        self._add_to_dict()

    dispatch |= {
        pickle.SETITEMS[0]: _add_to_dict,
        pickle.SETITEM[0]: _add_item,
        pickle.DICT[0]: _make_dict,
    }


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
        num_bytes = content.getbuffer().nbytes
        loaded = _Unpickler(content, num_bytes).load()
        if sum(boxes.value.size for boxes in loaded.values()) > num_bytes:
            raise ValueError('it repeats an array too often')
        return {key: _check(key, boxes.value) for key, boxes in loaded.items()}
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
        Boxes, (K, 4), clipped at the border of the frame, without those that are then empty.
    """
    if boxes.shape[1] == 5 and len(boxes):
        scores = boxes[:, 4]
        boxes = boxes[scores >= (min(min_score, scores.max()) if at_least_one else min_score)]
    boxes = np.clip(boxes[:most, :4], 0, 1)
    return boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)]
