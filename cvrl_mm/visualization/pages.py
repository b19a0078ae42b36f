"""HTML pages that show videos, each one a single file with embedded pictures."""

import base64
import filecmp
import html
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from ..datasets.frame_folder import open_video
from ..datasets.reader import UnreadableVideoError
from ..io import evenly_spaced, printable, replacing

PREVIEW_FRAMES, STRIP_FRAMES = 16, 3
STRIP_GAP = 3  # pixels between two frames
PREVIEW_MS = 100  # display time per frame
MARKS = {True: ('right', '✓'), False: ('wrong', '✗'), None: ('', '')}
HEAD = (
    '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)
STYLE = Path(__file__).with_name('page.css').read_text(encoding='utf-8')
TIP = Path(__file__).with_name('tip.html').read_text(encoding='utf-8')  # pictures that move


@dataclass(frozen=True)
class Neighbour:
    """A nearest neighbour of a query.

    Attributes:
        video: Path of the video.
        label: Name of its class, or None if unknown.
        similarity: Cosine similarity of its features and the query's.
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

    def without_copies(self, at_most: int) -> 'Query':
        """Return the query with its nearest neighbours that are no copies of its file."""
        kept = [each for each in self.neighbours if not _same_file(self.video, each.video)]
        return Query(self.video, self.label, kept[:at_most])


def _same_file(first: str, second: str) -> bool:
    try:
        # The content is read only if the sizes are equal
        return first == second or filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False


def write_neighbour_page(
    folder: str | Path, title: str, note: str, queries: Sequence[Query]
) -> tuple[Path, list[str]]:
    """Write ``index.html`` with three frames, and the motion when pointed at, of each video.

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
    rows, unreadable = neighbour_rows(queries)
    if unreadable and 'src=' not in rows:
        raise ValueError(
            f'None of the {len(unreadable)} videos to be shown can be read; the first one is '
            f'{printable(unreadable[0])}.'
        )
    same = [query.agrees(neighbour) for query in queries for neighbour in query.neighbours]
    known = [agrees for agrees in same if agrees is not None]
    count = f'{sum(known)} of {len(known)} neighbours are of the class of their query.'
    if not known:
        count = 'There are no labels to compare.'
    page = Path(folder) / 'index.html'
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as part:
        about = f'<p>{text(note)} {count} Point at a video to see its motion.</p>'
        part.write_text(html_page(title, about, rows, TIP), encoding='utf-8')
    return page, unreadable


def neighbour_rows(queries: Sequence[Query]) -> tuple[str, list[str]]:
    """Return a row of HTML per query and the videos that cannot be read."""
    videos = dict.fromkeys(v for q in queries for v in (q.video, *(n.video for n in q.neighbours)))
    shown = {video: pictures(video) for video in videos}
    rows = []
    for query in queries:
        cells = [_figure(query.video, query.label, 'query', '', shown)]
        for neighbour in query.neighbours:
            kind, mark = MARKS[query.agrees(neighbour)]
            below = f'<span class="mark">{mark}</span> {neighbour.similarity:.3f}'
            cells.append(_figure(neighbour.video, neighbour.label, kind, below, shown))
        rows.append(f'<div class="row">{"".join(cells)}</div>')
    return '\n'.join(rows), [video for video, (strip, _) in shown.items() if not strip]


def html_page(title: str, *parts: str) -> str:
    """Return a page with a title, which is also its heading, and parts of HTML."""
    head = f'{HEAD}<title>{text(title)}</title>\n<style>{STYLE}</style>\n<h1>{text(title)}</h1>'
    return '\n'.join([head, *parts, '</html>\n'])


def text(value: object) -> str:
    """Return text from outside as HTML without control characters."""
    return html.escape(printable(value))


def _figure(
    video: str, label: str | None, kind: str, below: str, shown: dict[str, tuple[str, str]]
) -> str:
    path = Path(video)
    name = text(f'{path.parent.name}/{path.name}' if path.parent.name else path.name)
    caption = name if label is None or label == path.parent.name else f'{text(label)}<br>{name}'
    strip, motion = shown[video]
    picture = f'<img src="{strip}" data-tip="{motion}" alt="{name}">'
    if not strip:
        picture = f'<p title="{name}">cannot be read</p>'
    return f'<figure class="{kind}">{picture}{below}<small>{caption}</small></figure>'


def pictures(video: str | Path, size: int = 128) -> tuple[str, str]:
    """Return two pictures of the middle of a video for the ``src`` of an image.

    Args:
        video: Path of the video.
        size: Length of the longer side of a frame in pixels.

    Returns:
        Three frames side by side, and a moving preview, both WebP pictures as data URLs; two
        empty strings if the video cannot be read.
    """
    try:
        with open_video(video) as reader:
            span = min(reader.num_frames, 4 * PREVIEW_FRAMES)  # a few seconds, so that motion shows
            start = (reader.num_frames - span) // 2
            frames = reader.read([start + i for i in evenly_spaced(span, PREVIEW_FRAMES)])
    except UnreadableVideoError:
        return '', ''
    height, width = frames[0].shape[:2]
    scale = size / max(height, width)
    shape = max(1, round(width * scale)), max(1, round(height * scale))
    small = [cv2.resize(frame, shape, interpolation=cv2.INTER_AREA) for frame in frames]
    strip = [small[i] for i in evenly_spaced(len(small), STRIP_FRAMES)]
    strip += strip[-1:] * (STRIP_FRAMES - len(strip))
    gap = np.full((shape[1], STRIP_GAP, 3), 255, np.uint8)
    parts = [part for frame in strip for part in (gap, frame)][1:]
    return _webp([np.concatenate(parts, axis=1)]), _webp(small)


def _webp(frames: Sequence[np.ndarray]) -> str:
    first, *others = (Image.fromarray(frame) for frame in frames)
    file = BytesIO()
    first.save(file, 'webp', save_all=True, append_images=others, duration=PREVIEW_MS, loop=0)
    return f'data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}'
