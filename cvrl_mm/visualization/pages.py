"""HTML pages that show videos, each one a single file with embedded pictures."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import cv2
from PIL import Image

from ..datasets import VideoFile
from ..datasets.reader import UnreadableVideoError
from ..io import evenly_spaced, printable, replacing

PREVIEW_FRAMES = 16
PREVIEW_MS = 100  # display time per frame
MARKS = {True: ('right', '✓'), False: ('wrong', '✗'), None: ('', '')}
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

    def agrees(self, neighbour: Neighbour) -> bool | None:
        """Return whether a neighbour is of the same class, or None if a class is unknown."""
        if self.label is None or neighbour.label is None:
            return None
        return self.label == neighbour.label


def write_neighbour_page(
    folder: str | Path, title: str, note: str, queries: Sequence[Query]
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
    videos = dict.fromkeys(v for query in queries for v in (query.video, *_paths(query)))
    previews = {video: preview(video) for video in videos}
    unreadable = [video for video, picture in previews.items() if not picture]
    if previews and len(unreadable) == len(previews):
        raise ValueError(
            f'None of the {len(previews)} videos to be shown can be read; the first one is '
            f'{printable(unreadable[0])}.'
        )
    same = [query.agrees(neighbour) for query in queries for neighbour in query.neighbours]
    known = [agrees for agrees in same if agrees is not None]
    count = f'{sum(known)} of {len(known)} neighbours are of the class of their query.'
    if not known:
        count = 'There are no labels to compare.'
    depth = max((len(query.neighbours) for query in queries), default=0)
    page = Path(folder) / 'index.html'
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as part:
        part.write_text(
            '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
            f'<title>{text(title)}</title>\n<style>{STYLE}</style>\n'
            f'<h1>{text(title)}</h1>\n<p>{text(note)} {count}</p>\n<table>\n<tr><th>query</th>'
            + ''.join(f'<th>{i + 1}</th>' for i in range(depth))
            + '</tr>\n'
            + ''.join(_row(query, previews) for query in queries)
            + '</table>\n</html>\n',
            encoding='utf-8',
        )
    return page, unreadable


def text(value: object) -> str:
    """Return text from outside as HTML without control characters."""
    return html.escape(printable(value))


def _paths(query: Query) -> list[str]:
    return [neighbour.video for neighbour in query.neighbours]


def _row(query: Query, previews: dict[str, str]) -> str:
    """Return the row of a query and its neighbours."""
    cells = [_cell(query.video, query.label, '', '', previews)]
    for neighbour in query.neighbours:
        kind, mark = MARKS[query.agrees(neighbour)]
        below = f'<span class="mark">{mark}</span> {neighbour.similarity:.3f}'
        cells.append(_cell(neighbour.video, neighbour.label, kind, below, previews))
    return f'<tr>{"".join(cells)}</tr>\n'


def _cell(video: str, label: str | None, kind: str, below: str, previews: dict[str, str]) -> str:
    name = text(Path(video).name)
    caption = f'{text(label)}<br>{name}' if label else name
    picture = f'<img src="{previews[video]}" alt="{name}" title="{text(video)}">'
    if not previews[video]:
        picture = f'<p title="{text(video)}">cannot be read</p>'
    return f'<td class="{kind}">{picture}{below}<small>{caption}</small></td>'


def preview(video: str | Path, size: int = 128, num_frames: int = PREVIEW_FRAMES) -> str:
    """Return an animated preview of a video for the ``src`` of an image.

    Args:
        video: Path of the video.
        size: Length of the longer side in pixels.
        num_frames: Maximal number of frames; 1 gives a still picture.

    Returns:
        A WebP picture as a data URL, or '' if the video cannot be read.
    """
    try:
        with VideoFile(video) as reader:
            span = min(reader.num_frames, 4 * PREVIEW_FRAMES)  # a few seconds, so that motion shows
            frames = reader.read(evenly_spaced(span, num_frames))
    except UnreadableVideoError:
        return ''
    height, width = frames[0].shape[:2]
    scale = size / max(height, width)
    shape = max(1, round(width * scale)), max(1, round(height * scale))
    first, *others = (
        Image.fromarray(cv2.resize(f, shape, interpolation=cv2.INTER_AREA)) for f in frames
    )
    file = BytesIO()
    first.save(file, 'webp', save_all=True, append_images=others, duration=PREVIEW_MS, loop=0)
    return f'data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}'
