import re
from pathlib import Path

import pytest

import cvrl_cli
from cvrl_mm.own_videos.neighbours import show_neighbours
from tests.own_videos.folder import write_folder
from tests.videos import encode

NAMES = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(6)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('n'), NAMES, ['a', 'b'])


def test_held_out_videos_beside_their_class(out: Path):
    page = show_neighbours(out, neighbours=2)
    text = page.read_text()
    assert page == out / 'neighbours/index.html'
    assert '2 held-out videos among the 6 videos' in text
    assert '4 of 4 neighbours are of the class of their query' in text
    for picture in set(re.findall(r'src="([^"]+)"', text)):
        assert (page.parent / picture).stat().st_size > 0


def test_other_videos(out: Path, tmp_path: Path):
    for name in ("it's <b>.mp4", 'plain.mkv'):
        encode(tmp_path / name, num_frames=8)
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    text = show_neighbours(out, [tmp_path], neighbours=3).read_text()
    assert '2 other videos (1 more cannot be read) among the 6 videos' in text
    assert text.count('<tr>') == 1 + 2 and '<b>' not in text


def test_the_command(out: Path, capsys, tmp_path: Path):
    cvrl_cli.main(['neighbours', str(out), '--rows', '1'])
    assert f'Open {out / "neighbours/index.html"}' in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r'cvrl neighbours: .* is not the output folder of'):
        cvrl_cli.main(['neighbours', str(tmp_path)])


@pytest.mark.parametrize('wrong', [dict(rows=0), dict(neighbours=0)])
def test_numbers_below_1(out: Path, wrong: dict):
    with pytest.raises(ValueError, match='at least 1'):
        show_neighbours(out, **wrong)
