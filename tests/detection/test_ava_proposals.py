import os
import pickle
import tracemalloc
from pathlib import Path

import mmengine
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cvrl_mm.detection.ava_proposals import load_proposals, save_proposals

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
    with pytest.raises(ValueError, match=r"p\.pkl is refused .* (asks for posix|type 'O8')"):
        load_proposals(tmp_path / 'p.pkl')
    assert not (tmp_path / 'ran').exists()


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ({'m0,0902': [[0.1, 0.2, 0.3, 0.4]]}, 'holds list'),
        ({'m0,0902': 'text'}, 'holds str'),
        ({'m0,0902': np.zeros((2, 3))}, r'shape \(2, 3\)'),
        ({'m0,0902': np.full((1, 4), np.nan)}, 'not finite'),
        ({'m0,0902': np.array(['a'])}, "type 'U1'"),
        ({902: np.zeros((1, 4))}, 'key 902'),
        ({'m0': np.zeros((1, 4))}, "key 'm0'"),
        ([np.zeros((1, 4))], 'it is damaged or not such a pickle'),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: object, message: str):
    (tmp_path / 'p.pkl').write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=message):
        load_proposals(tmp_path / 'p.pkl')


def test_a_file_that_was_cut_is_damaged(tmp_path: Path):
    for end in (0, 20, -1):
        (tmp_path / 'p.pkl').write_bytes(pickle.dumps(BOXES)[:end])
        with pytest.raises(ValueError, match=r': it is damaged or not such a pickle \(.*\)\. Exp'):
            load_proposals(tmp_path / 'p.pkl')


def test_damaged_files_are_refused(tmp_path: Path):
    stream = pickle.dumps(BOXES)
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(stream[: rng.integers(1, len(stream))])
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        (tmp_path / 'p.pkl').write_bytes(damaged)
        with pytest.raises(ValueError, match='is refused'):
            load_proposals(tmp_path / 'p.pkl')


@settings(
    derandomize=True,
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), protocol=st.integers(0, 5))
def test_any_file_holds_boxes_or_is_refused(data: st.DataObject, protocol: int, tmp_path: Path):
    stream = pickle.dumps(BOXES, protocol)
    start = data.draw(st.integers(0, len(stream)))
    damage = data.draw(st.binary(max_size=30))
    cut = data.draw(st.integers(0, 30))
    (tmp_path / 'p.pkl').write_bytes(stream[:start] + damage + stream[start + cut :])
    try:
        boxes = load_proposals(tmp_path / 'p.pkl')
    except ValueError as error:
        assert 'p.pkl is refused' in str(error)
    else:
        assert all(v.shape[1] in (4, 5) and np.isfinite(v).all() for v in boxes.values())


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match='proposal file /nowhere does not exist'):
        load_proposals('/nowhere')


def test_saving_checks_the_format(tmp_path: Path):
    with pytest.raises(ValueError, match="key 'm0'"):
        save_proposals({'m0': np.zeros((1, 5))}, tmp_path / 'p.pkl')
    with pytest.raises(ValueError, match='shape'):
        save_proposals({'m0,0902': np.zeros((1, 6))}, tmp_path / 'p.pkl')


def test_a_small_file_takes_no_large_memory(tmp_path: Path):
    """The index of a stored object may be up to 2^32, whatever the size of the file."""
    bomb = b'\x80\x02Nr' + (2**27).to_bytes(4, 'little') + b'.'  # store None at this index
    (tmp_path / 'bomb.pkl').write_bytes(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match='refused as a proposal file'):
            load_proposals(tmp_path / 'bomb.pkl')
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
