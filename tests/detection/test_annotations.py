"""AVA's csv files, person boxes, and the videos and frames of its movies."""

import os
import pickle
from pathlib import Path

import mmengine
import numpy as np
import pytest

from cvrl_mm.detection.annotations import (
    Source,
    find_frames,
    find_movies,
    load_proposals,
    probe_video,
    read_actions,
    read_exclusions,
    save_proposals,
    select_people,
)
from tests.videos import encode

GOOD = 'm0,0902,0.1,0.2,0.3,0.4,12,7'


def write(folder: Path, *lines: str) -> str:
    (folder / 'rows.csv').write_text('\n'.join(lines) + '\n')
    return str(folder / 'rows.csv')


def test_reads_rows(tmp_path: Path):
    # rounding may put a coordinate beyond the border
    rows = read_actions(write(tmp_path, GOOD, '', ' m1 ,1798,-0.001,0,1,1.002,80, 3'))
    assert [(r.video, r.second, r.action, r.person) for r in rows] == [
        ('m0', 902, 12, 7),
        ('m1', 1798, 80, 3),
    ]
    assert rows[0].box.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert rows[1].box.tolist() == [-0.001, 0, 1, 1.002]
    excluded = read_exclusions(write(tmp_path, '\ufeffm0,0902', 'm1,1000'))
    assert excluded == {('m0', 902), ('m1', 1000)}


@pytest.mark.parametrize(
    'line',
    [
        'm0,0902,0.1,0.2,0.3,0.4,12',
        'm0,now,0.1,0.2,0.3,0.4,12,7',
        'm0,0902,0.1,0.2,0.3,0.4,0,7',
        'm0,0902,0,0,64,48,12,7',  # pixels
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: str):
    with pytest.raises(ValueError, match=r'rows\.csv, line 2: '):
        read_actions(write(tmp_path, GOOD, line, GOOD))


@pytest.mark.parametrize('start', [0, 1])
def test_counts_frames(tmp_path: Path, start: int):
    for i in (0, 1, 2, 4):
        (tmp_path / f'img_{i + start:05}.jpg').touch()
    source = find_frames(str(tmp_path), 'img_{:05}.jpg', start, fps=10)
    assert source == Source(str(tmp_path), 3, 0.3)  # up to the missing one
    assert find_frames(str(tmp_path), '{:05}.jpg', start, fps=10) is None


def test_finds_videos_whatever_lies_beside_them(tmp_path: Path):
    for name in ('a.mp4', 'b.c.webm', '-d.MKV', 'a.json', 'a', 'notes.txt'):
        (tmp_path / name).touch()
    files = {name: Path(path).name for name, path in find_movies(str(tmp_path)).items()}
    assert files == {'a': 'a.mp4', 'b.c': 'b.c.webm', '-d': '-d.MKV'}
    assert find_movies(str(tmp_path / 'nowhere')) == {}


def test_probes_a_video(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=60)
    (tmp_path / 'no.mp4').write_bytes(b'text')
    assert probe_video(str(tmp_path / 'v.mp4')) == Source(str(tmp_path / 'v.mp4'), 60, 2)
    assert probe_video(str(tmp_path / 'no.mp4')) is probe_video(None) is None


def test_a_movie_that_broke_off_ends_there(tmp_path: Path):
    """Its header has the length of the whole movie, which its last frame would otherwise fill."""
    encode(path := tmp_path / 'v.mkv', num_frames=300)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert 1 < probe_video(str(path)).seconds < 9


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
    with pytest.raises(ValueError, match=r'p\.pkl'):
        load_proposals(tmp_path / 'p.pkl')
    assert not (tmp_path / 'ran').exists()


@pytest.mark.parametrize(
    'content',
    [
        {'m0,0902': [[0.1, 0.2, 0.3, 0.4]]},
        {'m0,0902': np.zeros((2, 3))},
        {'m0,0902': np.full((1, 4), np.nan)},
        {'m0,0902': np.array([[64, 48, 128, 96]])},  # pixels
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
