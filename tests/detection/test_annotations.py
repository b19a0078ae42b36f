"""AVA's csv files and the videos and frames of its movies."""

from pathlib import Path

import pytest

from cvrl_mm.detection.annotations import (
    Source,
    find_frames,
    find_movies,
    probe_video,
    read_actions,
    read_exclusions,
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
    assert read_exclusions(write(tmp_path, '\ufeffm0,0902', 'm1,1000')) == {
        ('m0', 902),
        ('m1', 1000),
    }
    assert read_exclusions(write(tmp_path)) == set()


@pytest.mark.parametrize(
    'line',
    [
        'm0,0902,0.1,0.2,0.3,0.4,12',
        'm0,now,0.1,0.2,0.3,0.4,12,7',
        'm0,0902,0.1,0.2,0.3,nan,12,7',
        'm0,0902,0.1,0.2,0.3,0.4,0,7',
        'm0,0902,0,0,64,48,12,7',  # pixels
        'm0',
        'm0,\0,0.1,0.2,0.3,0.4,12,7',
        f'm0,{"9" * 5000},0.1,0.2,0.3,0.4,12,7',
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: str):
    with pytest.raises(ValueError, match=r'rows\.csv, line 2: '):
        read_actions(write(tmp_path, GOOD, line, GOOD))


@pytest.mark.parametrize('count', [0, 1, 30])
@pytest.mark.parametrize('start', [0, 1])
def test_counts_frames(tmp_path: Path, count: int, start: int):
    for i in range(count):
        (tmp_path / f'img_{i + start:05}.jpg').touch()
    (tmp_path / f'img_{count + start + 1:05}.jpg').touch()  # after a missing one
    source = find_frames(str(tmp_path), 'img_{:05}.jpg', start, fps=10)
    assert source == (Source(str(tmp_path), count, count / 10) if count else None)


def test_finds_videos_whatever_lies_beside_them(tmp_path: Path):
    for name in ('a.mp4', 'b.c.webm', '-d.MKV', 'a.json', 'a', 'notes.txt'):
        (tmp_path / name).touch()
    files = {name: Path(path).name for name, path in find_movies(str(tmp_path)).items()}
    assert files == {'a': 'a.mp4', 'b.c': 'b.c.webm', '-d': '-d.MKV'}
    assert find_movies(str(tmp_path / 'nowhere')) == {}
    (tmp_path / 'a.webm').touch()
    with pytest.raises(ValueError, match=r'a\.mp4 and a\.webm'):
        find_movies(str(tmp_path))


def test_probes_a_video(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=60)
    (tmp_path / 'no.mp4').write_bytes(b'text')
    assert probe_video(str(tmp_path / 'v.mp4')) == Source(str(tmp_path / 'v.mp4'), 60, 2)
    assert probe_video(str(tmp_path / 'no.mp4')) is probe_video(None) is None


def test_a_movie_that_broke_off_ends_there(tmp_path: Path):
    """Its header has the length of the whole movie, which its last frame would otherwise fill."""
    for name in ('v.mkv', 'v.mp4'):
        faststart = dict(movflags='faststart') if name == 'v.mp4' else {}
        encode(path := tmp_path / name, num_frames=300, options=faststart)
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
        source = probe_video(str(path))
        assert source is not None and 1 < source.seconds < 9
