"""The page in Chromium or Chrome: one on the PATH, or that of BROWSER_FOR_TESTS."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from cvrl_mm.visualization.feature_page import Point, Row, write_feature_page
from tests.videos import encode

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome')
BROWSER = os.environ.get('BROWSER_FOR_TESTS') or next(filter(None, map(shutil.which, BROWSERS)), '')
NAMES = [
    'plain.mp4',
    '"double" \'single\' & `back`.mp4',
    '<script>document.title="broken"</script>.mp4',  # a folder with the name up to the slash
    '<img src=x onerror=alert(1)>.mp4',
    '\N{BOXING GLOVE} クリップ.mp4',
    '{{ x }} ${y} \\n %s.mp4',
]
WATCH = '<script>window.faults = []; window.onerror = (text) => { faults.push(text); };</script>'
POINT_AT_ALL = """
<script>
window.onload = async () => {
  const seen = [];
  for (const circle of document.querySelectorAll('circle')) {
    circle.dispatchEvent(new MouseEvent('mouseenter'));
    const image = tip.querySelector('img');
    if (image) await image.decode();
    seen.push([tip.textContent, tip.style.display, image ? image.naturalWidth : 0]);
    circle.dispatchEvent(new MouseEvent('mouseleave'));
  }
  const images = [...document.querySelectorAll('.grid img')];
  await Promise.all(images.map((image) => image.decode()));
  const result = document.createElement('pre');
  result.id = 'result';
  result.textContent = JSON.stringify({
    seen, faults, title: document.title, hidden: tip.style.display,
    alts: images.map((image) => image.alt), widths: images.map((image) => image.naturalWidth),
    scripts: document.scripts.length,
  });
  document.body.append(result);
};
</script>
"""


@pytest.mark.skipif(not BROWSER, reason='there is no Chromium or Chrome')
def test_names_are_shown_and_never_run(tmp_path: Path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        encode(tmp_path / name)
    page = tmp_path / 'page.html'
    points = [Point(name, i / 5, i / 5, i % 2) for i, name in enumerate(NAMES)]
    rows = [Row(name, [(NAMES[i - 1], 0.5)]) for i, name in enumerate(NAMES)]
    groups = ['<b>left', 'right"']
    write_feature_page(page, 'T', [NAMES[2]], [['', NAMES[3]]], rows, points, groups, tmp_path)
    text = page.read_text(encoding='utf-8')
    text = text.replace('<title>', WATCH + '<title>', 1).replace('</html>', POINT_AT_ALL)
    page.write_text(text, encoding='utf-8')
    done = subprocess.run(
        [
            *(BROWSER, '--headless=new', '--no-sandbox', '--disable-gpu', '--dump-dom'),
            *('--virtual-time-budget=10000', f'--user-data-dir={tmp_path / "profile"}'),
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    shown = re.search(r'<pre id="result">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert shown is not None, done.stderr.decode()[-2000:]
    result = json.loads(unescape(shown[1]))
    assert result['faults'] == [] and result['title'] == 'T' and result['hidden'] == 'none'
    assert [text for text, _, _ in result['seen']] == [
        f'{name} ({groups[i % 2]})' for i, name in enumerate(NAMES)
    ]
    assert all(display == 'block' and width > 0 for _, display, width in result['seen'])
    assert result['alts'] == [name for i in range(len(NAMES)) for name in (NAMES[i], NAMES[i - 1])]
    assert all(width > 0 for width in result['widths'])
    assert result['scripts'] == 4  # ours, the data and the page's own
