import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cvrl_mm.synthetic.motion_videos import encode
from cvrl_mm.visualization.neighbours import (
    Neighbour,
    Query,
    write_neighbour_page,
    write_preview,
)


@pytest.fixture(scope='module')
def videos(tmp_path_factory) -> list[str]:
    """Three videos that go from black to one colour."""
    folder = tmp_path_factory.mktemp('videos')
    ramp = np.linspace(0, 1, 20)[:, None, None, None]
    for channel in range(3):
        frames = np.zeros((20, 32, 64, 3))
        frames[..., channel] = 255
        encode(folder / f'{channel}.mp4', (frames * ramp).astype(np.uint8))
    return [str(path) for path in sorted(folder.glob('*.mp4'))]


def test_preview_moves_and_is_small(videos: list[str], tmp_path: Path):
    write_preview(videos[2], tmp_path / 'preview.webp', size=48)
    with Image.open(tmp_path / 'preview.webp') as preview:
        assert preview.size == (48, 24) and preview.n_frames == 16
        blue = []
        for place in (0, 15):
            preview.seek(place)
            blue.append(np.asarray(preview.convert('RGB'))[..., 2].mean())
    assert blue[0] < 30 and blue[1] > 200


def test_page_marks_right_and_wrong(videos: list[str], tmp_path: Path):
    found = [Neighbour(videos[1], 'a < b', 0.912), Neighbour(videos[2], 'other', 0.5)]
    page, unreadable = write_neighbour_page(
        tmp_path / 'page', 'Title', 'Note.', [Query(videos[0], 'a < b', found)] * 2
    )
    text = page.read_text()
    cells = re.findall(r'<td class="(\w*)">.*?</td>', text)
    assert cells == ['', 'right', 'wrong'] * 2
    assert '<small>a &lt; b<br>0.mp4</small>' in text and not unreadable
    assert '0.91' in text and '0.50' in text and 'a &lt; b' in text and 'a < b' not in text
    assert '2 of 4 neighbours are of the class of their query' in text
    shown = set(re.findall(r'src="([^"]+)"', text))
    assert len(shown) == 3  # each video once, whatever the number of its rows
    for source in shown:
        assert (page.parent / source).is_file()


def test_a_vanished_video_has_no_preview(videos: list[str], tmp_path: Path):
    gone = str(tmp_path / 'gone.mp4')
    found = [Neighbour(gone, 'a', 0.9), Neighbour(videos[2], 'a', 0.5)]
    page, unreadable = write_neighbour_page(
        tmp_path / 'page', 'Title', 'Note.', [Query(videos[0], 'a', found)] * 2
    )
    text = page.read_text()
    cells = re.findall(r'<td class="\w*">.*?</td>', text)
    assert ['cannot be read' in cell for cell in cells] == [False, True, False] * 2
    assert unreadable == [gone] and gone in cells[1] and '0.900' in cells[1]
    assert all((page.parent / source).is_file() for source in re.findall(r'src="(.+?)"', text))


def test_names_that_are_not_utf8_are_escaped(videos: list[str], tmp_path: Path):
    name = os.fsdecode(b'zw\xf6lf.mp4')
    found = [Neighbour(videos[0], 'a', 0.9)]
    page, _ = write_neighbour_page(tmp_path, 'Title', f'List {name}.', [Query(name, 'a', found)])
    assert page.read_text(encoding='utf-8').count(r'zw\udcf6lf.mp4') == 3


def test_a_page_without_any_video_is_an_error(tmp_path: Path):
    found = [Neighbour('b.mp4', 'a', 0.9)]
    with pytest.raises(ValueError, match=r'None of the 2 videos .* the first one is a\.mp4'):
        write_neighbour_page(tmp_path, 'Title', 'Note.', [Query('a.mp4', 'a', found)])
    assert not (tmp_path / 'index.html').exists()


def test_videos_without_labels_are_not_marked(videos: list[str], tmp_path: Path):
    found = [Neighbour(videos[1], None, 0.9), Neighbour(videos[2], 'a', 0.5)]
    page, unreadable = write_neighbour_page(
        tmp_path / 'page', 'Title', 'Note.', [Query(videos[0], None, found)]
    )
    text = page.read_text()
    assert re.findall(r'<td class="(\w*)">.*?</td>', text) == [''] * 3
    assert '<small>0.mp4</small>' in text and not unreadable
    assert 'There are no labels to compare.' in text and 'None' not in text
