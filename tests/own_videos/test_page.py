import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
import torch

import cvrl_cli
from cvrl_mm.own_videos.folder import Lists, Trained
from cvrl_mm.own_videos.page import _colour, map_videos, show_neighbours, write_feature_page
from tests.own_videos.folder import write_folder
from tests.videos import encode

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome')
BROWSER = os.environ.get('BROWSER_FOR_TESTS') or next(filter(None, map(shutil.which, BROWSERS)), '')
NAMES = [
    '"double" \'single\' & `back`.mp4',
    '<script>document.title="broken"</script>.mp4',  # a folder with the name up to the slash
    '<img src=x onerror=alert(1)>.mp4',
    '{{ x }} ${y} $z \\n %s.mp4',
    '\N{BOXING GLOVE} クリップ.mp4',
    'broken.mp4',
]
POINT_AT_ALL = """
<script>
window.onload = () => {  // without waiting: the page is dumped as soon as it is loaded
  const seen = [];
  for (const circle of document.querySelectorAll('circle')) {
    circle.dispatchEvent(new MouseEvent('mouseenter'));
    const image = tip.querySelector('img');
    seen.push([tip.textContent, tip.style.display, image ? image.src : '']);
  }
  const result = document.createElement('pre');
  result.id = 'seen';
  result.textContent = JSON.stringify([document.title, seen]);
  document.body.append(result);
};
</script>
"""


@pytest.fixture(scope='module')
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('page')
    for i, name in enumerate(NAMES[:-1]):
        (root / name).parent.mkdir(exist_ok=True)
        encode(root / name, num_frames=4 + i)
    (root / NAMES[-1]).write_bytes(b'x')
    table = [['', 'before', 'after'], ['number', '1.0', '2.0']]
    labels = dict(zip(NAMES, [0, 1, 0, 1, 0, -1], strict=True))
    lists = Lists(root, NAMES, labels, ['left', 'ri<ght'], set(NAMES[2:]))
    trained = Trained(root, lists, NAMES, torch.eye(6) + 0.1, torch.eye(6))
    write_feature_page(root / 'index.html', 'Better.', ['A note with <b>.'], table, trained)
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


@pytest.mark.skipif(not BROWSER, reason='needs Chromium or Chrome')
def test_a_page_in_a_browser(page: Path, tmp_path: Path):
    text = page.read_text(encoding='utf-8').replace('</html>', f'{POINT_AT_ALL}</html>')
    (tmp_path / 'page.html').write_text(text, encoding='utf-8')
    options = ['--headless', '--no-sandbox', '--disable-gpu', '--virtual-time-budget=20000']
    options += [f'--user-data-dir={tmp_path / "profile"}', '--dump-dom']
    command = [BROWSER, *options, (tmp_path / 'page.html').as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    title, seen = json.loads(unescape(re.search(r'<pre id="seen">(.*?)</pre>', shown, re.S)[1]))
    groups = [*['left', 'ri<ght'] * 2, 'left', 'no class']
    assert [text for text, *_ in seen] == [f'{n} ({g})' for n, g in zip(NAMES, groups, strict=True)]
    assert title == 'Your videos' and all(display == 'block' for _, display, _ in seen)
    assert [src.startswith('data:image/') for *_, src in seen] == [True] * 5 + [False]


def test_equal_features_have_a_map():  # the t-SNE of scikit-learn crashes on them
    assert not map_videos(torch.rand(1, 16).repeat(30, 1)).any()


def test_each_class_has_its_colour():
    assert len({_colour(i) for i in range(60)}) == 60


CLASSED = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(6)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('n'), CLASSED, ['a', 'b'])


def test_held_out_videos_beside_their_class(out: Path, capsys):
    cvrl_cli.main(['neighbours', str(out), '--neighbours', '2'])
    assert str(out / 'neighbours/index.html') in capsys.readouterr().out
    text = (out / 'neighbours/index.html').read_text()
    assert '2 held-out videos among the 6 videos' in text
    assert '4 of 4 neighbours are of the class of their query' in text


def test_other_videos(out: Path, tmp_path: Path):
    for name in ("it's <b>.mp4", 'plain.mkv'):
        encode(tmp_path / name, num_frames=8)
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    page, (note,) = show_neighbours(out, [tmp_path], neighbours=3)
    text = page.read_text()
    assert '2 other videos among the 6 videos' in text and '<b>' not in text
    assert str(tmp_path / 'broken.mp4') in note


def test_what_neighbours_cannot_be_shown_of(tmp_path: Path):
    folder = write_folder(tmp_path, CLASSED, ['a', 'b'])
    (tmp_path / 'videos' / CLASSED[0]).unlink()
    assert CLASSED[0] in show_neighbours(folder)[1][0]
    (tmp_path / 'broken').mkdir()
    (tmp_path / 'broken/x.mp4').write_bytes(b'no video')
    for wrong in (dict(rows=0), dict(neighbours=0), dict(videos=[tmp_path / 'broken'])):
        with pytest.raises(ValueError, match=r'rows|x\.mp4'):
            show_neighbours(folder, **wrong)
    (tmp_path / 'videos').rename(tmp_path / 'moved')
    with pytest.raises(FileNotFoundError, match=r'inputs\.json'):
        show_neighbours(folder)
    with pytest.raises(SystemExit, match=r'cvrl neighbours: .*not the output'):
        cvrl_cli.main(['neighbours', str(tmp_path)])
