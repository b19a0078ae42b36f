import base64
import csv
import io
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import cvrl_cli
from cvrl_mm.own_videos.folder import Trained
from cvrl_mm.own_videos.page import (
    map_videos,
    neighbour_rows,
    pictures,
    show_neighbours,
    write_feature_page,
)
from cvrl_mm.synthetic.motion import encode as write_frames
from tests.own_videos.folder import write_folder
from tests.videos import encode

NAMES = [
    '"double" \'single\' & `back`.mp4',
    '<script>document.title="broken"</script>.mp4',  # a folder with the name up to the slash
    '<img src=x onerror=alert(1)>.mp4',
    '{{ x }} ${y} $z \\n %s.mp4',
    '\N{BOXING GLOVE} クリップ.mp4',
    'broken.mp4',
]


@pytest.fixture(scope='module')
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('page')
    for i, name in enumerate(NAMES[:-1]):
        (root / name).parent.mkdir(exist_ok=True)
        encode(root / name, num_frames=4 + i)
    (root / NAMES[-1]).write_bytes(b'x')
    table = [['', 'before', 'after'], ['number', '1.0', '2.0']]
    labels, classes, feats = [0, 1, 0, 1, 0, -1], ['left', 'ri<ght'], torch.eye(6) + 0.1
    trained = Trained(root, root, NAMES, labels, classes, [0, 1], feats, feats)
    write_feature_page(trained, 'Better.', ['A note with <b>.'], table)
    return root / 'index.html'


def test_a_page_shows_all_videos_and_needs_no_other_file(page: Path):
    text = page.read_text(encoding='utf-8')
    tips = re.findall(r'data-tip="(\S*)" aria-label="(.*?)"', text)
    assert [unescape(name).rpartition(' (')[0] for _, name in tips] == NAMES
    assert [bool(picture) for picture, _ in tips] == [True] * 5 + [False]
    assert 'http' not in re.sub(r'data:[^"]*', '', text)
    assert not [tag for tag in ('<b>', 'ri<ght', '<img src=x', '<script>doc') if tag in text]
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="5" fill="(\S+)"', text)
    assert len(dots) == 6 and len({fill for *_, fill in dots}) == 3  # two classes and none
    assert all(0 <= float(x) <= 640 and 0 <= float(y) <= 640 for x, y, _ in dots)
    assert text.count('<figure') == 2 * (1 + 5)  # the held-out videos and their neighbours


def test_a_video_is_shown_as_three_frames_and_as_motion(tmp_path: Path):
    frames = np.zeros((20, 32, 64, 3))
    frames[..., 2] = np.linspace(0, 255, 20)[:, None, None]  # from black to blue
    write_frames(tmp_path / 'blue.mp4', frames.astype(np.uint8))
    strip, motion = (opened(data) for data in pictures(tmp_path / 'blue.mp4', size=48))
    assert (strip.size, motion.size) == ((150, 24), (48, 24))
    assert (getattr(strip, 'n_frames', 1), motion.n_frames) == (1, 16)
    blue = np.asarray(strip.convert('RGB'))[..., 2]
    assert [blue[:, i : i + 40].mean() // 64 for i in (4, 55, 106)] == [0, 2, 3]
    motion.seek(15)
    assert np.asarray(motion.convert('RGB'))[..., 2].mean() > 200
    assert pictures('gone.mp4') == ('', '')


def opened(data: str) -> Image.Image:
    start, content = data.split(',')
    assert start == 'data:image/webp;base64'
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_neighbours_are_marked_and_no_copies_of_the_query(tmp_path: Path):
    names = ['a/0.mp4', 'a/copy.mp4', 'a < b/1.mp4', 'a/2.mp4', '3.mp4', 'a/gone.mp4']
    for i, name in enumerate(names[:-1]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        encode(tmp_path / name, num_frames=5 + i)
    shutil.copy(tmp_path / names[0], tmp_path / names[1])
    labels, feats = [0, 0, 1, 0, -1, 0], torch.tensor([[1, 0.1 * i] for i in range(6)])
    trained = Trained(tmp_path, tmp_path, names, labels, ['a', 'a < b'], [], feats, feats)
    rows, listed, lost = neighbour_rows(trained, [(trained.path(0), 'a')], feats[:1], 4)
    cells = re.findall(r'<figure class="(\w*)">(.*?)</figure>', rows)
    assert [kind for kind, _ in cells] == ['query', 'wrong', 'right', '', 'right']
    assert ['cannot be read' in cell for _, cell in cells] == [False] * 4 + [True]
    assert [row[4] for row in listed] == ['a < b', 'a', None, 'a'] and lost == [trained.path(5)]
    assert f'{F.cosine_similarity(feats[0], feats[2], dim=0):.3f}' in rows
    assert '<small>a &lt; b/1.mp4</small>' in rows and 'a < b' not in rows
    groups = ['p'], ['p', 'p', 'p', 'q', 'p', 'q']
    _, listed, lost = neighbour_rows(trained, [(trained.path(0), 'a')], feats[:1], 4, groups)
    assert [row[3] for row in listed] == [trained.path(3), trained.path(5)]  # of q
    shown = re.findall(r'(?:src|data-tip)="([^"]+)"', rows)
    assert len(shown) == 8 and all(source.startswith('data:') for source in shown)


def test_equal_features_have_a_map():  # the t-SNE of scikit-learn crashes on them
    assert not map_videos(torch.rand(1, 16).repeat(30, 1)).any()


CLASSED = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(6)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('n'), CLASSED, ['a', 'b'])


def test_held_out_videos_beside_their_class(out: Path, capsys):
    page, command = out / 'neighbours/index.html', ['neighbours', str(out), '--neighbours', '2']
    cvrl_cli.main(command)
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert '2 held-out videos among the 6 videos' in text
    assert '4 of 4 neighbours are of the class of their query' in text
    cvrl_cli.main([*command, '--csv'])
    head, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert len(rows) == 4 and [row[2] for row in rows] == ['1', '2', '1', '2']
    for row in map(dict, (zip(head, row, strict=True) for row in rows)):
        assert row['class'] == row['neighbour_class'] == Path(row['neighbour']).parent.name
        assert 0 < float(row['similarity']) <= 1.001


def test_other_videos(out: Path, tmp_path: Path):
    for name in ("it's <b>.mp4", 'plain.mkv'):
        encode(tmp_path / name, num_frames=8)
    with pytest.raises(ValueError, match='--groups'):  # not in the names of the others
        show_neighbours(out, [tmp_path], groups='^([ab])/')
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    page, (note,), _ = show_neighbours(out, [tmp_path], neighbours=3)
    text = page.read_text()
    assert '2 other videos among the 6 videos' in text and '<b>' not in text
    assert str(tmp_path / 'broken.mp4') in note


def test_what_neighbours_cannot_be_shown_of(tmp_path: Path):
    folder = write_folder(tmp_path, CLASSED, ['a', 'b'])
    (tmp_path / 'videos' / CLASSED[0]).unlink()
    assert CLASSED[0] in show_neighbours(folder)[1][0]
    (tmp_path / 'broken').mkdir()
    (tmp_path / 'broken/x.mp4').write_bytes(b'no video')
    with pytest.raises(ValueError, match=r'x\.mp4'):
        show_neighbours(folder, [tmp_path / 'broken'])
    (tmp_path / 'videos').rename(tmp_path / 'moved')
    with pytest.raises(FileNotFoundError, match=r'inputs\.json'):
        show_neighbours(folder)
    with pytest.raises(SystemExit, match=r'cvrl neighbours: .*not the output'):
        cvrl_cli.main(['neighbours', str(tmp_path)])
