import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cvrl_mm.visualization.feature_page import Point, Row, write_feature_page
from tests.videos import encode

NAMES = ['a.mp4', 'b <i>.mp4', '</script>.mp4'.replace('/', '_'), 'broken.mp4']


class Page(HTMLParser):
    """Collects elements, and sees that they are closed."""

    VOID = ('img', 'meta', 'circle')

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in (*self.VOID, 'p', 'td', 'tr', 'th', 'html'):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in (*self.VOID, 'p', 'td', 'tr', 'th', 'html'):
            assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope='module')
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp('page')
    for name in NAMES[:3]:
        encode(root / name)
    (root / 'broken.mp4').write_bytes(b'x')
    write_feature_page(
        root / 'index.html',
        'Title & more',
        ['A note with <b>.'],
        [['', 'before', 'after'], ['number', '1.0', '2.0']],
        [Row(NAMES[0], [(NAMES[1], 0.75), (NAMES[3], 0.5)])],
        [Point(name, i / 3, 1 - i / 3, i % 2) for i, name in enumerate(NAMES)],
        ['left', 'ri<ght'],
        root,
    )
    return (root / 'index.html').read_text(encoding='utf-8')


def test_it_needs_no_other_file(page: str):
    parsed = Page(page)
    assert not parsed.open
    addresses = [a[k] for _, a in parsed.elements for k in ('src', 'href') if a.get(k)]
    assert addresses and all(a.startswith('data:image/webp;base64,') for a in addresses)
    assert 'http' not in re.sub(r'data:[^"]*', '', page)


def test_names_are_text(page: str):
    assert '<i>' not in page and '<b>' not in page and 'ri<ght' not in page
    assert 'Title &amp; more' in page


def test_every_video_is_a_dot_with_its_name(page: str):
    parsed = Page(page)
    dots = parsed.all('circle')
    assert [dot['aria-label'] for dot in dots] == NAMES
    assert [dot['data-index'] for dot in dots] == ['0', '1', '2', '3']
    assert len({dot['fill'] for dot in dots}) == 2
    assert all(0 <= float(dot[k]) <= 640 for dot in dots for k in ('cx', 'cy'))
    data = json.loads(page.split('id="data">')[1].split('</script>')[0])
    assert [point['name'] for point in data['points']] == NAMES
    assert [bool(point['picture']) for point in data['points']] == [True, True, True, False]


def test_neighbours_stand_with_their_similarity(page: str):
    assert '0.750' in page and '0.500' in page
    moving = [image for image in Page(page).all('img') if image['alt'] == NAMES[0]]
    assert len(moving) == 1 and len(moving[0]['src']) > 200


def test_pictures_of_a_large_map_are_thinned_out(tmp_path: Path, monkeypatch):
    monkeypatch.setattr('cvrl_mm.visualization.feature_page.MAX_PICTURES', 2)
    for i in range(6):
        encode(tmp_path / f'{i}.mp4', num_frames=2)
    points = [Point(f'{i}.mp4', 0.5, 0.5, 0) for i in range(6)]
    write_feature_page(tmp_path / 'p.html', 't', [], [['']], [], points, ['all'], tmp_path)
    text = (tmp_path / 'p.html').read_text()
    data = json.loads(text.split('id="data">')[1].split('</script>')[0])
    assert [bool(p['picture']) for p in data['points']] == [True, False, False, False, False, True]
