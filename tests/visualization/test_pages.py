import base64
import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cvrl_mm.synthetic.motion import encode
from cvrl_mm.visualization.pages import Neighbour, Query, pictures, write_neighbour_page


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


def test_a_video_is_shown_as_three_frames_and_as_motion(videos: list[str]):
    strip, motion = (opened(data) for data in pictures(videos[2], size=48))
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


def test_the_page_marks_right_and_wrong_and_needs_no_other_file(videos: list[str], tmp_path: Path):
    gone = str(tmp_path / 'gone.mp4')
    found = [(videos[1], 'a < b', 0.912), (videos[2], 'other', 0.5), (gone, None, 0.4)]
    query = Query(videos[0], 'a < b', [Neighbour(*each) for each in found])
    page, unreadable = write_neighbour_page(tmp_path / 'page', 'Title', 'Note.', [query] * 2)
    content = page.read_text()
    cells = re.findall(r'<figure class="(\w*)">(.*?)</figure>', content)
    assert [kind for kind, _ in cells] == ['query', 'right', 'wrong', ''] * 2
    assert ['cannot be read' in cell for _, cell in cells] == [False, False, False, True] * 2
    assert unreadable == [gone]
    folder = Path(videos[0]).parent.name  # tells videos of one name apart
    assert f'<small>a &lt; b<br>{folder}/0.mp4</small>' in content and 'a < b' not in content
    assert '0.912' in content and '2 of 4 neighbours' in content
    sources = re.findall(r'(?:src|data-tip)="([^"]+)"', content)
    assert len(sources) == 12 and all(source.startswith('data:') for source in sources)
    assert os.listdir(page.parent) == ['index.html']


def test_a_query_does_not_find_copies_of_itself(videos: list[str], tmp_path: Path):
    copy = shutil.copy(videos[0], tmp_path / 'copy.mp4')
    found = [Neighbour(path, None, 0.9) for path in (videos[0], copy, *videos[1:], 'gone.mp4')]
    kept = Query(videos[0], None, found).without_copies(3).neighbours
    assert [each.video for each in kept] == [*videos[1:], 'gone.mp4']


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
