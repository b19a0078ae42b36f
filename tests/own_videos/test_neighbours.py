import re
from pathlib import Path

import numpy as np
import pytest

import cvrl_cli
from cvrl_mm.own_videos.encoding import write_features
from cvrl_mm.own_videos.neighbours import show_neighbours
from tests.own_videos.folder import write_folder
from tests.videos import encode

NAMES = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(6)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('n'), NAMES, ['a', 'b'])


def test_held_out_videos_beside_their_class(out: Path):
    page, _ = show_neighbours(out, neighbours=2)
    text = page.read_text()
    assert page == out / 'neighbours/index.html'
    assert '2 held-out videos among the 6 videos' in text
    assert text.count('<small>a<br>0.mp4</small>') == 1  # the first query
    assert '4 of 4 neighbours are of the class of their query' in text
    for picture in set(re.findall(r'src="([^"]+)"', text)):
        assert (page.parent / picture).stat().st_size > 0


def test_other_videos(out: Path, tmp_path: Path):
    for name in ("it's <b>.mp4", 'plain.mkv'):
        encode(tmp_path / name, num_frames=8)
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    page, notes = show_neighbours(out, [tmp_path], neighbours=3)
    text = page.read_text()
    assert '2 other videos among the 6 videos' in text
    assert 'Cannot be read: broken.mp4.' in text and '<small>plain.mkv</small>' in text
    assert notes[0].startswith(f'Cannot be read: {tmp_path / "broken.mp4"}: ')
    assert text.count('<tr>') == 1 + 2 and '<b>' not in text


def test_the_command(out: Path, capsys, tmp_path: Path):
    cvrl_cli.main(['neighbours', str(out), '--rows', '1'])
    assert f'Open {out / "neighbours/index.html"}' in capsys.readouterr().out
    cvrl_cli.main(['neighbours', str(out), '--rows', '1'])
    shown = capsys.readouterr().out
    assert f'The earlier page in {out / "neighbours"} was replaced.\nOpen' in shown
    with pytest.raises(SystemExit, match=r'cvrl neighbours: .* is not the output folder of'):
        cvrl_cli.main(['neighbours', str(tmp_path)])


def test_features_of_another_encoder(tmp_path: Path):
    folder = write_folder(tmp_path, NAMES, ['a', 'b'])
    write_features(folder, NAMES, np.ones((6, 5), np.float32))
    with pytest.raises(ValueError, match=r'computes 64 features per video, but features\.npz .* 5'):
        show_neighbours(folder, [tmp_path / 'videos' / NAMES[0]])


def test_vanished_videos_are_named(tmp_path: Path):
    folder = write_folder(tmp_path, NAMES, ['a', 'b'])
    (tmp_path / 'videos' / NAMES[0]).unlink()
    _, notes = show_neighbours(folder)
    assert notes == [f'Cannot be read: {tmp_path / "videos" / NAMES[0]}']
    (tmp_path / 'videos').rename(tmp_path / 'moved')
    with pytest.raises(ValueError, match=r'None of the 6 videos .* can be read; the first one is'):
        show_neighbours(folder)


@pytest.mark.parametrize('wrong', [dict(rows=0), dict(neighbours=0)])
def test_numbers_below_1(out: Path, wrong: dict):
    with pytest.raises(ValueError, match='at least 1'):
        show_neighbours(out, **wrong)
