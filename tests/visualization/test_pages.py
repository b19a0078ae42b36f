import base64
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cvrl_mm.synthetic.motion import encode
from cvrl_mm.visualization.pages import Neighbour, Query, preview, write_neighbour_page


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three videos that go from black to one colour."""
    folder = tmp_path_factory.mktemp('videos')
    ramp = np.linspace(0, 1, 20)[:, None, None, None]
    for channel in range(3):
        frames = np.zeros((20, 32, 64, 3))
        frames[..., channel] = 255
        encode(folder / f'{channel}.mp4', (frames * ramp).astype(np.uint8))
    return [str(path) for path in sorted(folder.glob('*.mp4'))]


def test_a_preview_moves_and_is_small(videos: list[str]):
    start, data = preview(videos[2], size=48).split(',')
    assert start == 'data:image/webp;base64'
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        assert picture.size == (48, 24) and picture.n_frames == 16
        blue = []
        for place in (0, 15):
            picture.seek(place)
            blue.append(np.asarray(picture.convert('RGB'))[..., 2].mean())
    assert blue[0] < 30 and blue[1] > 200
    assert preview('gone.mp4') == ''


def test_the_page_marks_right_and_wrong_and_needs_no_other_file(videos: list[str], tmp_path: Path):
    gone = str(tmp_path / 'gone.mp4')
    found = [(videos[1], 'a < b', 0.912), (videos[2], 'other', 0.5), (gone, None, 0.4)]
    query = Query(videos[0], 'a < b', [Neighbour(*each) for each in found])
    page, unreadable = write_neighbour_page(tmp_path / 'page', 'Title', 'Note.', [query] * 2)
    content = page.read_text()
    cells = re.findall(r'<td class="(\w*)">(.*?)</td>', content)
    assert [kind for kind, _ in cells] == ['', 'right', 'wrong', ''] * 2
    assert ['cannot be read' in cell for _, cell in cells] == [False, False, False, True] * 2
    assert unreadable == [gone]
    assert '<small>a &lt; b<br>0.mp4</small>' in content and 'a < b' not in content
    assert '0.912' in content and '2 of 4 neighbours' in content
    sources = re.findall(r'src="([^"]+)"', content)
    assert len(sources) == 6 and all(source.startswith('data:') for source in sources)
    assert os.listdir(page.parent) == ['index.html']


def test_names_from_outside_are_escaped(videos: list[str], tmp_path: Path):
    name = os.fsdecode(b'<b>zw\xf6lf\x1b.mp4')
    query = Query(name, None, [Neighbour(videos[0], None, 0.9)])
    page, _ = write_neighbour_page(tmp_path, '<i>', f'List {name}.', [query])
    content = page.read_text(encoding='utf-8')
    assert content.count(r'&lt;b&gt;zw\udcf6lf\x1b.mp4') == 3 and '<b>' not in content
    assert '<i>' not in content and 'no labels to compare' in content


def test_a_page_without_any_video_is_an_error(tmp_path: Path):
    with pytest.raises(ValueError, match=r'None of the 2 videos .* a\.mp4'):
        found = [Neighbour('b.mp4', 'a', 0.9)]
        write_neighbour_page(tmp_path, 'Title', 'Note.', [Query('a.mp4', 'a', found)])
    assert not list(tmp_path.iterdir())
