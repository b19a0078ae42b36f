"""An HTML page that shows videos beside their nearest neighbours."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
from PIL import Image

from ..datasets import VideoFile
from ..datasets.reader import UnreadableVideoError
from ..io import evenly_spaced

PREVIEW_FRAMES = 16
MARKS = {True: ('right', '✓'), False: ('wrong', '✗'), None: ('', '')}
PREVIEW_MS = 100  # display time per frame
STYLE = """
body {font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem}
table {border-collapse: collapse}
td, th {width: 9rem; padding: .4rem; text-align: center; vertical-align: top; font-weight: normal}
td:first-child, th:first-child {border-right: 2px solid #999; padding-right: 1rem}
img {display: block; margin: auto; width: 8rem}
img {border: .3rem solid transparent; border-radius: .4rem}
.right img {border-color: #2a9d4a}
.wrong img {border-color: #c8373c}
.right .mark {color: #2a9d4a}
.wrong .mark {color: #c8373c}
small {display: block; color: #555; overflow-wrap: anywhere}
"""


@dataclass(frozen=True)
class Neighbour:
    """A nearest neighbour of a query.

    Attributes:
        video: Path of the video.
        label: Name of its class, or None if unknown.
        similarity: Cosine similarity of its features with those of the query.
    """

    video: str
    label: str | None
    similarity: float


@dataclass(frozen=True)
class Query:
    """A video with its nearest neighbours.

    Attributes:
        video: Path of the video.
        label: Name of its class, or None if unknown.
        neighbours: Neighbours in descending order of similarity.
    """

    video: str
    label: str | None
    neighbours: Sequence[Neighbour]


def write_neighbour_page(
    folder: str | Path, title: str, note: str, queries: list[Query]
) -> tuple[Path, list[str]]:
    """Write ``index.html`` with an animated preview of each video that can be read.

    Args:
        folder: Output folder; created if it does not exist.
        title: Title of the page.
        note: A sentence below the title that names the model and the videos.
        queries: The queries, one per row.

    Returns:
        Path of the page, and the paths of the videos that cannot be read.

    Raises:
        ValueError: None of the videos can be read. An existing page is kept.
    """
    folder = Path(folder)
    (folder / 'previews').mkdir(parents=True, exist_ok=True)
    shown: dict[str, str] = {}
    rows = [_row(query, folder, shown) for query in queries]
    unreadable = [video for video, preview in shown.items() if not preview]
    if shown and len(unreadable) == len(shown):
        raise ValueError(
            f'None of the {len(shown)} videos to be shown can be read; the first one is '
            f'{unreadable[0]}.'
        )
    flat = [_same_class(query, n) for query in queries for n in query.neighbours]
    known = [same for same in flat if same is not None]
    count = f'{sum(known)} of {len(known)} neighbours are of the class of their query.'
    if not known:
        count = 'There are no labels to compare.'
    depth = max((len(query.neighbours) for query in queries), default=0)
    head = ''.join(f'<th>{i + 1}</th>' for i in range(depth))
    page = folder / 'index.html'
    page.write_text(
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
        f'<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<h1>{html.escape(title)}</h1>\n<p>{html.escape(note)} {count}</p>\n'
        f'<table>\n<tr><th>query</th>{head}</tr>\n' + '\n'.join(rows) + '\n</table>\n</html>\n',
        encoding='utf-8',
        errors='backslashreplace',  # of file names that are not UTF-8
    )
    return page, unreadable


def _row(query: Query, folder: Path, shown: dict[str, str]) -> str:
    """Return the row of a query and its neighbours; ``shown`` maps videos to their previews."""
    cells = [_cell(query.video, query.label, '', '', folder, shown)]
    for neighbour in query.neighbours:
        kind, mark = MARKS[_same_class(query, neighbour)]
        text = f'<span class="mark">{mark}</span> {neighbour.similarity:.3f}'
        cells.append(_cell(neighbour.video, neighbour.label, kind, text, folder, shown))
    return f'<tr>{"".join(cells)}</tr>'


def _same_class(query: Query, neighbour: Neighbour) -> bool | None:
    """Return whether the classes are equal, or None if one of them is unknown."""
    if query.label is None or neighbour.label is None:
        return None
    return query.label == neighbour.label


def _cell(
    video: str, label: str | None, kind: str, text: str, folder: Path, shown: dict[str, str]
) -> str:
    if video not in shown:
        path = f'previews/{len(shown):04d}.webp'
        shown[video] = path if write_preview(video, folder / path) else ''
    title, name = html.escape(video), html.escape(Path(video).name)
    caption = f'{html.escape(label)}<br>{name}' if label else name
    picture = f'<img src="{shown[video]}" alt="{name}" title="{title}">'
    if not shown[video]:
        picture = f'<p title="{title}">cannot be read</p>'
    return f'<td class="{kind}">{picture}{text}<small>{caption}</small></td>'


def write_preview(
    video: str | Path, path: str | Path, size: int = 128, num_frames: int = PREVIEW_FRAMES
) -> bool:
    """Write an animated preview of a video.

    Args:
        video: Path of the video.
        path: Path of the preview; the suffix determines the format, ``.webp`` or ``.gif``.
        size: Length of the longer side in pixels.
        num_frames: Maximal number of frames; 1 gives a still picture.

    Returns:
        Whether the video could be read. If not, nothing is written.
    """
    try:
        with VideoFile(video) as reader:
            span = min(reader.num_frames, 4 * PREVIEW_FRAMES)  # a few seconds, so that motion shows
            frames = reader.read(evenly_spaced(span, num_frames))
    except UnreadableVideoError:
        return False
    height, width = frames[0].shape[:2]
    scale = size / max(height, width)
    shape = max(1, round(width * scale)), max(1, round(height * scale))
    first, *others = (
        Image.fromarray(cv2.resize(f, shape, interpolation=cv2.INTER_AREA)) for f in frames
    )
    first.save(path, save_all=True, append_images=others, duration=PREVIEW_MS, loop=0)
    return True
