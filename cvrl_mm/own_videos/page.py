"""Pages that need no other file: neighbours, a map of all videos, and a classifier's mistakes."""

import base64
import html
import json
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import islice
from os.path import relpath
from pathlib import Path
from string import Template

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import pyplot as plt
from mmaction.evaluation import ConfusionMatrix
from PIL import Image
from sklearn.manifold import TSNE
from torch import Tensor

from ..datasets.frame_folder import open_video
from ..datasets.lists import gather_videos
from ..datasets.reader import UnreadableVideoError
from ..datasets.sampling import evenly_spaced
from ..encoder.encoder import load_encoder
from ..evaluation.features import describe_lost
from ..evaluation.labelled import find_copies, groups_of
from ..evaluation.measures import nearest_neighbours
from ..evaluation.protocols import chance, intervals
from ..text import printable
from .folder import Trained, encode_videos, video_root
from .predict import Prediction, plain

HERE = Path(__file__).parent
# Colours that can be distinguished with colour-blindness (Okabe & Ito)
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#999999', '#F0E442')
SHOWN_VIDEOS, SHOWN_NEIGHBOURS = 8, 5
SPARE_NEIGHBOURS = 5  # in place of the query and its copies
MAX_MAP_VIDEOS = 500  # each with a picture
MAP_PIXELS = 72  # longer side of a frame
SHOWN_MISTAKES = 12
MOST_WITH_VALUES = 30  # classes of a confusion matrix; the values of 100 take 37 s to draw
PREVIEW_FRAMES, STRIP_FRAMES = 16, 3
STRIP_GAP = 3  # pixels between two frames
PREVIEW_MS = 100  # display time per frame
Query = tuple[str, str | None]  # path of a video, and its class if it is known
MARKS = {True: ('right', '✓ '), False: ('wrong', '✗ '), None: ('', '')}


def write_feature_page(
    trained: Trained, verdict: str, notes: Sequence[str], table: Sequence[Sequence[str]]
) -> None:
    """Write ``index.html`` about the features of videos.

    Args:
        trained: The videos and their features. The held-out ones are shown with their neighbours,
            or some of all videos if there are none. The classes colour the map.
        verdict: The most important sentence.
        notes: Paragraphs below the table.
        table: Rows of text; the first one is the header.
    """
    groups = [*trained.classes, 'no class'] if trained.labels else ['a video']
    chosen, dots = evenly_spaced(len(trained.names), MAX_MAP_VIDEOS), []
    of = [groups.index(trained.class_of(i) or groups[-1]) for i in chosen]
    for i, group, (x, y) in zip(chosen, of, map_videos(trained.feats[chosen]), strict=True):
        picture, _ = pictures(trained.path(i), MAP_PIXELS)
        about = text(f'{trained.names[i]} ({groups[group]})')
        dots.append(
            f'<circle cx="{10 + 620 * x:.1f}" cy="{10 + 620 * y:.1f}" r="5" '
            f'fill="{_colour(group)}" data-tip="{picture}" aria-label="{about}"/>'
        )
    legend = [
        f'<span><i class="key" style="background:{_colour(group)}"></i>{text(groups[group])}</span>'
        for group in sorted({*of})
    ]
    head, *body = table
    rows, *_ = neighbour_rows(trained, *_held_out(trained, SHOWN_VIDEOS), SHOWN_NEIGHBOURS)
    content = Template((HERE / 'page.html').read_text(encoding='utf-8')).substitute(
        verdict=text(verdict),
        notes='\n'.join(f'<p>{text(note)}</p>' for note in notes),
        table='\n'.join([_row('th', head), *(_row('td', row) for row in body)]),
        whose='a held-out video' if trained.held_out else 'a video',
        rows=rows,
        legend='\n'.join(legend),
        shown=f'{len(chosen)} of {len(trained.names)} videos',
        dots='\n'.join(dots),
    )
    page = html_page('Your videos', content)
    (trained.folder / 'index.html').write_text(page, encoding='utf-8')


def _colour(group: int) -> str:
    if group < len(COLOURS):
        return COLOURS[group]
    return f'hsl({137.5 * group % 360:.0f} 75% {30 + 15 * (group % 3)}%)'  # the golden angle


def _row(tag: str, cells: Iterable[str]) -> str:
    return '<tr>' + ''.join(f'<{tag}>{text(cell)}</{tag}>' for cell in cells) + '</tr>'


def _held_out(trained: Trained, number: int) -> tuple[list[Query], Tensor]:
    """Return some held-out videos, or some of all if there are none, and their features."""
    pool = trained.held_out or range(len(trained.names))
    chosen = [pool[i] for i in evenly_spaced(len(pool), number)]
    return [(trained.path(i), trained.class_of(i)) for i in chosen], trained.feats[chosen]


def map_videos(feats: Tensor) -> np.ndarray:
    """Map features, (V, C), to two dimensions by t-SNE; return places, (V, 2) from 0 to 1."""
    unit = F.normalize(feats, dim=1).numpy()
    perplexity = min(30.0, max(1.0, (len(unit) - 1) / 3))
    places = np.zeros((len(unit), 2))
    if np.ptp(unit, axis=0).any():  # scikit-learn crashes on equal points, as of a collapse
        places = TSNE(init='pca', perplexity=perplexity, random_state=0).fit_transform(unit)
    return (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-9)


def show_neighbours(
    out: str | Path,
    videos: Sequence[str | Path] = (),
    rows: int = 12,
    neighbours: int = 5,
    groups: str | None = None,
) -> tuple[Path, list[str], list[tuple]]:
    """Write a page with videos and their nearest neighbours among the videos of a training.

    Args:
        out: Output folder of the training.
        videos: Query videos: files, folders or lists. Default: the held-out videos of the
            training, or all of its videos if none is held out.
        rows: Number of query videos that are shown, evenly spread over all.
        neighbours: Number of neighbours per query.
        groups: See :func:`.groups_of`. Neighbours are then of other groups than their query.

    Returns:
        Path of the page, ``OUT/neighbours/index.html``; lines about unreadable videos; and a row
        per neighbour: video, its class, rank, neighbour, its class, cosine similarity.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or the folder of its videos
            or a source does not exist.
        ValueError: No video can be read, or a file of the training is damaged.
    """
    trained = Trained.read(out)
    video_root(trained.folder)
    lost: list[str] = []
    if videos:
        what, paths = 'other videos', gather_videos(videos)
        paths = [str(Path(paths[i]).absolute()) for i in evenly_spaced(len(paths), rows)]
        _, found = encode_videos({'': load_encoder(trained.folder)}, paths)
        lost = [f'{paths[i]}: {reason}' for i, reason in found.errors.items()]
        queries: list[Query] = [(paths[i], None) for i in found.indices]
        feats = found.vectors
    else:
        what = 'held-out videos' if trained.held_out else 'videos'
        queries, feats = _held_out(trained, rows)
    apart = None
    if groups is not None:
        asked = groups_of(groups, [relpath(path, trained.root) for path, _ in queries])
        apart = asked, groups_of(groups, trained.names)
    content, found_rows, unreadable = neighbour_rows(trained, queries, feats, neighbours, apart)
    agreeing = [x[1] == x[4] for x in found_rows if None not in (x[1], x[4])]
    count = 'There are no labels to compare.'
    if agreeing:
        count = f'{sum(agreeing)} of {len(agreeing)} neighbours are of the class of their query.'
    among = f'{len(queries)} {what} among the {len(trained.names)} videos below'
    about = f'{among} {trained.root}. {count} Point at a video to see its motion.'
    page = trained.folder / 'neighbours/index.html'
    page.parent.mkdir(exist_ok=True)
    parts = f'<p>{text(about)}</p>', content
    page.write_text(html_page('Nearest neighbours', *parts), encoding='utf-8')
    notes = [f'Cannot be read: {printable(line)}' for line in [*lost, *unreadable]]
    return page, notes, found_rows


def neighbour_rows(
    trained: Trained,
    queries: Sequence[Query],
    feats: Tensor,
    number: int,
    groups: tuple[Sequence[str], Sequence[str]] | None = None,
) -> tuple[str, list[tuple], list[str]]:
    """Show videos beside their nearest neighbours among the videos of a training.

    Exact copies of a query are not among its neighbours.

    Args:
        trained: The videos of the training.
        queries: Path and class, if it is known, of each of the Q videos.
        feats: Their features, (Q, C).
        number: Number of neighbours per video.
        groups: Groups of the queries and of the videos of the training; neighbours are then of
            other groups than their query.

    Returns:
        A row of HTML per query; the rows of :func:`show_neighbours`; and the paths of the videos
        that cannot be read.
    """
    k = len(trained.names)
    if groups is None:
        k = min(number + SPARE_NEIGHBOURS, k)
    sims, indices = nearest_neighbours(feats, trained.feats, k)
    rows, listed, shown = [], [], {}

    def figure(path: str, label: str | None, kind: str, below: str = '') -> str:
        if path not in shown:
            shown[path] = pictures(path)
        strip, motion = shown[path]
        folder, file = Path(path).parts[-2:]
        name = text(f'{folder}/{file}')
        caption = name if label in (None, folder) else f'{text(label)}<br>{name}'
        picture = f'<img src="{strip}" data-tip="{motion}" alt="{name}">'
        if not strip:
            picture = f'<p title="{name}">cannot be read</p>'
        return f'<figure class="{kind}">{picture}{below}<small>{caption}</small></figure>'

    for q, (path, label) in enumerate(queries):
        cells = [figure(path, label, 'query')]
        near = zip(sims[q].tolist(), indices[q].tolist(), strict=True)
        others = (
            (similarity, i)
            for similarity, i in near
            if (groups is None or groups[0][q] != groups[1][i])
            and path != trained.path(i)
            and not find_copies(Path(), [path, trained.path(i)])
        )
        for rank, (similarity, i) in enumerate(islice(others, number), 1):
            own = trained.class_of(i)
            agrees = None if label is None or own is None else label == own
            listed.append((path, label, rank, trained.path(i), own, similarity))
            kind, mark = MARKS[agrees]
            below = f'<span class="mark">{mark}</span>{similarity:.3f}'
            cells.append(figure(trained.path(i), own, kind, below))
        rows.append(f'<div class="row">{"".join(cells)}</div>')
    return '\n'.join(rows), listed, [path for path, (strip, _) in shown.items() if not strip]


def write_classifier_page(
    folder: Path, training: str, classes: Sequence[str], found: Sequence[tuple[Prediction, int]]
) -> list[str]:
    """Write ``index.html`` of a classifier and, with held-out videos, what is measured on them.

    Args:
        folder: Output folder.
        training: Sentences on the training.
        classes: Names of the classes.
        found: Predictions of the held-out videos, and their classes.

    Returns:
        The paragraphs of the report.

    Raises:
        ValueError: None of the held-out videos can be read.
    """
    notes = ['No video is held out, so that the accuracy on other videos is unknown.']
    parts: list[str] = []
    if found:
        notes, parts = _held_out_results(folder, classes, found)
    notes.insert(1, training)
    shown = (f'<p>{text(note)}</p>' for note in notes)
    page = html_page('Your classifier', *shown, *parts)
    (folder / 'index.html').write_text(page, encoding='utf-8')
    return notes


def _held_out_results(
    folder: Path, classes: Sequence[str], found: Sequence[tuple[Prediction, int]]
) -> tuple[list[str], list[str]]:
    """Write ``confusion.png`` and ``report.json``, and return paragraphs and parts of the page."""
    pairs = [(p, label) for p, label in found if p.error is None]
    lost = describe_lost({p.video: p.error for p, _ in found if p.error is not None})
    if not pairs:
        raise ValueError(f'No report was written: {lost[0]}')
    probs, true = torch.cat([p.probs for p, _ in pairs]), [label for _, label in pairs]
    predicted, targets = probs.argmax(1).tolist(), torch.tensor(true)
    hits, frequent = torch.tensor(predicted) == targets, chance(targets)
    top1 = hits.double().mean().item()
    tested, which = len({*true}), f'{len(classes)} classes'
    if tested < len(classes):
        which = f'{tested} of the {which}'
    around = 100 * intervals({'': hits}).get('', 1)  # one video says nothing
    notes = [
        f'{100 * top1:.1f} % of {len(true)} held-out videos of {which} are right '
        f'(within about ±{around:.0f} % by chance); always the most frequent class: '
        f'{100 * frequent:.1f} %.',
        *lost,
    ]
    matrix = ConfusionMatrix.calculate(probs, targets, num_classes=len(classes))
    _plot_confusion(matrix, classes, folder / 'confusion.png')
    own = probs[range(len(true)), true]
    wrong = [i for i in own.argsort().tolist() if not hits[i]][:SHOWN_MISTAKES]
    root, figures = video_root(folder), []
    for i in wrong:
        lines = [
            f'{what}: <b>{text(classes[label])}</b> ({100 * probs[i, label]:.0f}&nbsp;%)'
            for what, label in (('predicted', predicted[i]), ('true', true[i]))
        ]
        video = pairs[i][0].video
        name = text(relpath(video, root))
        figures.append(
            f'<figure><img src="{pictures(video)[1]}" alt="{name}">{"<br>".join(lines)}'
            f'<small>{name}</small></figure>'
        )
    picture = base64.b64encode((folder / 'confusion.png').read_bytes()).decode()
    parts = [
        f'<img alt="confusion matrix" src="data:image/png;base64,{picture}">',
        '<h2>The worst mistakes</h2>',
        '<p>Each video with its predicted and its true class, and their probabilities.</p>',
        f'<div class="row">{"".join(figures)}</div>',
    ]
    numbers = dict(
        top1=top1,
        chance=frequent,
        videos=len(true),
        confusion=matrix.tolist(),
        classified=[
            [printable(p.video), classes[label], classes[guess]]
            for (p, label), guess in zip(pairs, predicted, strict=True)
        ],
    )
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    return notes, parts


def _plot_confusion(matrix: Tensor, classes: Sequence[str], path: Path) -> None:
    figure = ConfusionMatrix.plot(
        matrix,
        include_values=len(classes) <= MOST_WITH_VALUES,
        classes=[plain(name) for name in classes],
        show=False,
    )
    figure.axes[0].tick_params(axis='x', rotation=90)
    figure.savefig(path, dpi=100, bbox_inches='tight')
    plt.close(figure)  # or a notebook shows it as well


def html_page(title: str, *parts: str) -> str:
    """Return a page with a title, which is also its heading, and parts of HTML."""
    style, tip = ((HERE / name).read_text(encoding='utf-8') for name in ('page.css', 'tip.html'))
    head = [
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{text(title)}</title>\n<style>{style}</style>\n<h1>{text(title)}</h1>',
    ]
    return '\n'.join([*head, *parts, tip, '</html>\n'])  # the tip shows pictures that move


def text(value: object) -> str:
    """Return text from outside as HTML without control characters."""
    return html.escape(printable(value))


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
    gap = np.full((shape[1], STRIP_GAP, 3), 255, np.uint8)
    shown = [part for i in evenly_spaced(len(small), STRIP_FRAMES) for part in (gap, small[i])][1:]
    return _webp([np.concatenate(shown, axis=1)]), _webp(small)


def _webp(frames: Sequence[np.ndarray]) -> str:
    first, *others = (Image.fromarray(frame) for frame in frames)
    file = BytesIO()
    first.save(file, 'webp', save_all=True, append_images=others, duration=PREVIEW_MS, loop=0)
    return f'data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}'
