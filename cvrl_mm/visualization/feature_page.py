"""A self-contained HTML page about the features of videos."""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..io import evenly_spaced
from .pages import preview

# Colours that can be distinguished with colour-blindness (Okabe & Ito)
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#999999', '#F0E442')
MAP_SIZE = 640  # pixels
MARGIN = 10
PREVIEW_PIXELS = 112
MAX_PICTURES = 300  # on the map
STYLE = """
body {font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem}
table {border-collapse: collapse; max-width: 100%; display: block; overflow-x: auto}
td, th {padding: .3rem .7rem; text-align: right; font-weight: normal}
td:first-child, th:first-child {text-align: left}
.grid td {text-align: center; vertical-align: top; width: 8rem}
img {display: block; margin: auto; max-width: 7rem}
small {display: block; color: #555; overflow-wrap: anywhere; max-width: 8rem}
svg {border: 1px solid #ccc; max-width: 100%; height: auto}
circle {stroke: #fff; stroke-width: .5; cursor: pointer}
circle:hover, circle:focus {stroke: #000; stroke-width: 2; outline: none}
#tip {position: fixed; display: none; background: #fff; border: 1px solid #999; padding: .4rem;
  pointer-events: none; max-width: 16rem; overflow-wrap: anywhere}
.key {display: inline-block; width: .8rem; height: .8rem; border-radius: 50%;
  margin: 0 .3rem 0 1rem}
@media (max-width: 420px) {body {margin: 1rem auto} td, th {padding: .2rem .3rem}}
"""
SCRIPT = """
const data = JSON.parse(document.getElementById('data').textContent);
const tip = document.getElementById('tip');
function show(event) {
  const point = data.points[event.target.dataset.index];
  tip.replaceChildren();
  if (point.picture) {
    const image = document.createElement('img');
    image.src = point.picture;
    tip.append(image);
  }
  const text = document.createElement('div');
  text.textContent = point.name + ' (' + data.groups[point.group] + ')';
  tip.append(text);
  const box = event.target.getBoundingClientRect();
  tip.style.display = 'block';
  tip.style.left = Math.max(0, Math.min(box.right + 8, innerWidth - tip.offsetWidth)) + 'px';
  tip.style.top = Math.max(0, Math.min(box.bottom + 8, innerHeight - tip.offsetHeight)) + 'px';
}
for (const circle of document.querySelectorAll('circle')) {
  circle.addEventListener('mouseenter', show);
  circle.addEventListener('focus', show);
  circle.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
  circle.addEventListener('blur', () => { tip.style.display = 'none'; });
}
"""


@dataclass(frozen=True)
class Point:
    """A video on the map.

    Attributes:
        name: Name of the video.
        x: Horizontal position, 0 to 1.
        y: Vertical position, 0 to 1.
        group: Index into the names of the groups.
    """

    name: str
    x: float
    y: float
    group: int


@dataclass(frozen=True)
class Row:
    """A video and its nearest neighbours.

    Attributes:
        name: Name of the video.
        neighbours: Names and cosine similarities, in descending order of similarity.
    """

    name: str
    neighbours: Sequence[tuple[str, float]]


def write_feature_page(
    path: Path,
    title: str,
    notes: Sequence[str],
    table: Sequence[Sequence[str]],
    rows: Sequence[Row],
    points: Sequence[Point],
    groups: Sequence[str],
    root: Path,
) -> None:
    """Write a self-contained HTML file.

    Args:
        path: Path of the page.
        title: Title of the page.
        notes: Paragraphs below the title.
        table: Rows of text; the first one is the header.
        rows: Videos that are shown with their nearest neighbours as animated previews.
        points: Positions of all videos on the map. At most 300 of them, evenly spaced, get a
            preview.
        groups: Names of the groups, one colour each.
        root: Folder to which the names of the videos are relative.
    """
    moving = {n for row in rows for n in (row.name, *(name for name, _ in row.neighbours))}
    still = {points[i].name for i in evenly_spaced(len(points), MAX_PICTURES)}
    pictures = {n: preview(root / n, PREVIEW_PIXELS) for n in sorted(moving)}
    stills = {n: preview(root / n, PREVIEW_PIXELS, 1) for n in sorted(still)}
    data = dict(
        groups=list(groups),
        points=[dict(name=p.name, group=p.group, picture=stills.get(p.name, '')) for p in points],
    )
    parts = [
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{html.escape(title)}</title>\n<style>{STYLE}</style>',
        f'<h1>{html.escape(title)}</h1>',
        *(f'<p>{html.escape(note)}</p>' for note in notes),
        _table(table),
        '<h2>Nearest neighbours</h2>',
        '<p>Each row shows a video and the videos whose features are most similar to its own '
        '(cosine similarity below them).</p>',
        _neighbours(rows, pictures),
        '<h2>Map of all videos</h2>',
        '<p>Videos with similar features lie close together (t-SNE); distances between far groups '
        'mean little. Point at a dot to see its video.</p>',
        f'<p>{_legend(groups)}</p>',
        _map(points),
        '<div id="tip" role="tooltip"></div>',
        f'<script type="application/json" id="data">{_json(data)}</script>',
        f'<script>{SCRIPT}</script>\n</html>\n',
    ]
    path.write_text('\n'.join(parts), encoding='utf-8')


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = ['<tr>' + ''.join(f'<th>{html.escape(cell)}</th>' for cell in head) + '</tr>']
    lines += ['<tr>' + ''.join(f'<td>{html.escape(c)}</td>' for c in row) + '</tr>' for row in body]
    return '<table>\n' + '\n'.join(lines) + '\n</table>'


def _neighbours(rows: Sequence[Row], pictures: dict[str, str]) -> str:
    def cell(name: str, text: str) -> str:
        alt = html.escape(name)
        picture = f'<img src="{pictures[name]}" alt="{alt}" title="{alt}">'
        return f'<td>{picture}{text}<small>{alt}</small></td>'

    lines = [
        f'<tr>{cell(row.name, "video")}'
        + ''.join(cell(name, f'{similarity:.3f}') for name, similarity in row.neighbours)
        + '</tr>'
        for row in rows
    ]
    return '<table class="grid">\n' + '\n'.join(lines) + '\n</table>'


def _map(points: Sequence[Point]) -> str:
    def place(share: float) -> str:
        return f'{MARGIN + share * (MAP_SIZE - 2 * MARGIN):.1f}'

    dots = [
        f'<circle cx="{place(p.x)}" cy="{place(p.y)}" r="5" '
        f'fill="{COLOURS[p.group % len(COLOURS)]}" data-index="{i}" tabindex="0" '
        f'aria-label="{html.escape(p.name)}"/>'
        for i, p in enumerate(points)
    ]
    box = f'viewBox="0 0 {MAP_SIZE} {MAP_SIZE}" width="{MAP_SIZE}" height="{MAP_SIZE}"'
    return f'<svg {box} role="img" aria-label="map">\n' + '\n'.join(dots) + '\n</svg>'


def _legend(groups: Sequence[str]) -> str:
    return ''.join(
        f'<span class="key" style="background:{COLOURS[i % len(COLOURS)]}"></span>'
        + html.escape(group)
        for i, group in enumerate(groups)
    )


def _json(data: object) -> str:
    """Return JSON that cannot end the script element."""
    return json.dumps(data).replace('<', '\\u003c')
