"""Files of person boxes at key frames, in the format of the proposals for AVA.

Such a file is a pickled dict ``{'VIDEO,TTTT': array}``. TTTT is the second of the movie with four
digits. Each row of the array is a person, ``x1, y1, x2, y2[, score]``, as fractions of the frame.
Unpickling can execute arbitrary code; the unpickler of this module creates only arrays of numbers.
"""

import pickle
import re
import struct
from pathlib import Path
from typing import Literal

import numpy as np

KEY = re.compile(r'.+,\d{4,}')
NUMBERS = re.compile(r'[<>|=]?[fiu][1248]')

# Errors that a damaged or malicious file causes in an unpickler
UNPICKLING_ERRORS = (
    *(pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(AssertionError, EOFError, MemoryError, OverflowError, struct.error),
)


class _RefusedError(ValueError):
    """Raised for content other than boxes; the message continues a sentence about the file."""


class _DType:
    """Replacement of ``numpy.dtype`` that accepts only types of numbers."""

    def __init__(self, name: str, *flags: object) -> None:
        if not isinstance(name, str) or not NUMBERS.fullmatch(name):
            raise _RefusedError(f'holds an array of type {name!r}')
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple) -> None:
        if state[1] in ('<', '>'):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Replacement of ``numpy.ndarray``."""

    value = np.zeros((0,))

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, in_fortran_order, content = state
        if isinstance(content, str):  # written by Python 2
            content = content.encode('latin1')
        order: Literal['F', 'C'] = 'F' if in_fortran_order else 'C'
        self.value = np.frombuffer(content, dtype.dtype).reshape(shape, order=order)


def _reconstruct(kind: type, shape: tuple, typecode: bytes) -> _Array:
    return _Array()


def _from_buffer(content: bytes, dtype: _DType, shape: tuple, order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, dtype, order == 'F', content))
    return array


def _encode(text: str, encoding: str) -> bytes:
    return text.encode('latin1')  # how protocols 0 to 2 store bytes


def _no_bytes() -> bytes:
    return b''  # and how they store empty bytes


_ALLOWED = {
    ('numpy.core.multiarray', '_reconstruct'): _reconstruct,
    ('numpy._core.multiarray', '_reconstruct'): _reconstruct,
    ('numpy', 'ndarray'): _Array,
    ('numpy', 'dtype'): _DType,
    ('numpy.core.numeric', '_frombuffer'): _from_buffer,
    ('numpy._core.numeric', '_frombuffer'): _from_buffer,
    ('_codecs', 'encode'): _encode,
    ('__builtin__', 'bytes'): _no_bytes,
}


# The C implementation allocates memory for the largest index in a file: 2.6 GB for 35 bytes
class _ArrayUnpickler(pickle._Unpickler):  # type: ignore[name-defined]
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f'asks for {module}.{name}')
        return _ALLOWED[module, name]


def load_proposals(path: str | Path) -> dict[str, np.ndarray]:
    """Load person boxes without executing code from the file.

    Args:
        path: A file such as ``ava_dense_proposals_val.FAIR.recall_93.9.pkl``.

    Returns:
        Boxes, (N, 4), or (N, 5) with the score of the person in the last column, by 'VIDEO,TTTT'.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file contains other objects. No code of the file is executed.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f'The proposal file {path} does not exist; docs/detection.md says where to download '
            'it, and tools/data/make_proposals.py writes one for any videos.'
        )
    with open(path, 'rb') as file:
        try:
            content = _ArrayUnpickler(file, encoding='latin1').load()
            return {_key(k): _boxes(k, v) for k, v in content.items()}
        except _RefusedError as error:
            reason = f'it {error}'
        except UNPICKLING_ERRORS as error:
            reason = f'it is damaged or not such a pickle ({type(error).__name__}: {error})'
    raise ValueError(
        f'{path} is refused as a proposal file: {reason}. Expected is a pickled dict from '
        '"VIDEO,TTTT" to arrays (N, 4) or (N, 5) and nothing else; '
        'tools/data/make_proposals.py writes one.'
    )


def select_people(
    boxes: np.ndarray, person_det_score_thr: float = 0.9, num_max_proposals: int = 1000
) -> np.ndarray:
    """Select the person boxes in which actions are detected.

    Args:
        boxes: Boxes as fractions of the frame, (N, 4), or (N, 5) with the scores of the persons.
        person_det_score_thr: Lowest score of a box that is used. If all scores are lower, only the
            best box is used.
        num_max_proposals: Maximal number of boxes.

    Returns:
        Boxes, (K, 4), clipped at the border of the frame, without those that are then empty.
    """
    if boxes.shape[1] == 5 and len(boxes):
        scores = boxes[:, 4]
        boxes = boxes[scores >= min(person_det_score_thr, scores.max())]
    boxes = np.clip(boxes[:num_max_proposals, :4], 0, 1)
    return boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)]


def save_proposals(proposals: dict[str, np.ndarray], path: str | Path) -> None:
    """Write person boxes that this module and MMAction2 can read.

    Raises:
        ValueError: A key or an array does not have the format.
    """
    checked = {_key(k): _checked(k, np.asarray(v, np.float32)) for k, v in proposals.items()}
    with open(path, 'wb') as file:
        pickle.dump(checked, file, protocol=4)


def _key(key: object) -> str:
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise _RefusedError(f'has the key {key!r} instead of one like "VIDEO,0902"')
    return key


def _boxes(key: str, array: object) -> np.ndarray:
    if not isinstance(array, _Array):
        raise _RefusedError(f'holds {type(array).__name__} for {key!r} instead of an array')
    return _checked(key, array.value)


def _checked(key: str, boxes: np.ndarray) -> np.ndarray:
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 5):
        if boxes.size:
            raise _RefusedError(f'holds an array of shape {boxes.shape} for {key!r}')
        boxes = np.zeros((0, 5))
    if not np.isfinite(boxes).all():
        raise _RefusedError(f'holds numbers that are not finite for {key!r}')
    return boxes.astype(np.float32)
