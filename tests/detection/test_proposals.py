import os
import pickle
from pathlib import Path

import mmengine
import numpy as np
import pytest

from cvrl_mm.detection.proposals import load_proposals, save_proposals, select_people

BOXES = {
    'm0,0902': np.array([[0.1, 0.2, 0.3, 0.4, 0.9], [0.5, 0.5, 0.75, 1.0, 0.25]]),
    'm0,0903': np.zeros((0, 5)),
    'a,b,1000': np.array([[0.0, 0.0, 1.0, 1.0]]),
}


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.allclose(a[k], b[k]) for k in a)


@pytest.mark.parametrize('protocol', range(6))
@pytest.mark.parametrize('dtype', ['<f4', '<f8', '>f8', '<i8'])
def test_loads_what_numpy_pickles(tmp_path: Path, protocol: int, dtype: str):
    boxes = {k: np.asfortranarray(v.astype(dtype)) for k, v in BOXES.items()}
    (tmp_path / 'p.pkl').write_bytes(pickle.dumps(boxes, protocol))
    loaded = load_proposals(tmp_path / 'p.pkl')
    assert same(loaded, boxes)
    assert {v.dtype for v in loaded.values()} == {np.dtype('float32')}


def test_loads_what_python_2_pickled(tmp_path: Path):
    array = np.array([[0.25, 0.5, 0.75, 1.0]], '<f8')
    text = ''.join(f'\\x{byte:02x}' for byte in array.tobytes())
    stream = (
        "(dp0\nS'm0,0902'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n"
        "(I0\ntp4\nS'b'\np5\ntp6\nRp7\n(I1\n(I1\nI4\ntp8\ncnumpy\ndtype\np9\n(S'f8'\np10\nI0\nI1\n"
        "tp11\nRp12\n(I3\nS'<'\np13\nNNNI-1\nI-1\nI0\ntp14\nbI00\nS'" + text + "'\np15\ntp16\nbs."
    )
    (tmp_path / 'p.pkl').write_text(stream)
    assert same(load_proposals(tmp_path / 'p.pkl'), {'m0,0902': array})


def test_mmaction2_reads_what_is_saved(tmp_path: Path):
    save_proposals(BOXES, tmp_path / 'p.pkl')
    assert same(mmengine.load(tmp_path / 'p.pkl'), BOXES)
    assert same(load_proposals(tmp_path / 'p.pkl'), BOXES)
    pixels = np.array([[64, 48, 128, 96, 0.99]])
    for wrong in ({'m0': np.zeros((1, 5))}, {'m0,0902': np.zeros((1, 6))}, {'m0,0902': pixels}):
        with pytest.raises(ValueError, match="'m0"):
            save_proposals(wrong, tmp_path / 'p.pkl')


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize('nested', [False, True])
def test_a_file_that_would_run_something_runs_nothing(tmp_path: Path, nested: bool):
    bomb = Bomb(tmp_path / 'ran')
    content = {'m0,0902': np.array([[bomb]], object) if nested else bomb}
    (tmp_path / 'p.pkl').write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=r'p\.pkl'):
        load_proposals(tmp_path / 'p.pkl')
    assert not (tmp_path / 'ran').exists()


@pytest.mark.parametrize(
    'content',
    [
        {'m0,0902': [[0.1, 0.2, 0.3, 0.4]]},
        {'m0,0902': 'text'},
        {'m0,0902': np.zeros((2, 3))},
        {'m0,0902': np.full((1, 4), np.nan)},
        {'m0,0902': np.array([['a'] * 4])},
        {902: np.zeros((1, 4))},
        {'m0': np.zeros((1, 4))},
        [np.zeros((1, 4))],
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: object):
    (tmp_path / 'p.pkl').write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=r'p\.pkl'):
        load_proposals(tmp_path / 'p.pkl')


def test_selects_people():
    boxes = np.array([[-0.1, 0.2, 0.5, 1.2, 0.7], [0.5, 0.1, 0.8, 0.7, 0.6], [1.1, 0, 1.2, 1, 0.9]])
    assert select_people(boxes, 0.65).tolist() == [[0, 0.2, 0.5, 1]]
    assert len(select_people(boxes, 0.5)) == 2 and len(select_people(boxes, 0.5, most=1)) == 1
    assert select_people(boxes[1:2], 0.65).tolist() == [[0.5, 0.1, 0.8, 0.7]]
    assert select_people(boxes[1:2], 0.65, at_least_one=False).shape == (0, 4)
    assert len(select_people(boxes[:, :4], 0.65)) == 2  # without scores
