"""Pages with pictures: neighbours and a map of all videos, and the neighbours of chosen videos."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE
from torch import Tensor

from ..datasets.lists import gather_videos
from ..datasets.reader import UnreadableVideoError
from ..evaluation.encoder import load_encoder
from ..evaluation.knn import leave_one_out, nearest_neighbours
from ..io import evenly_spaced, printable
from ..visualization.pages import Neighbour, Query, preview, text, write_neighbour_page
from .folder import Trained

TEMPLATE = Path(__file__).with_name('page.html')
# Colours that can be distinguished with colour-blindness (Okabe & Ito)
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#999999', '#F0E442')
SHOWN_VIDEOS, SHOWN_NEIGHBOURS = 8, 5
MAX_MAP_VIDEOS, MAX_PICTURES = 3000, 300  # dots, and those with a picture
MAX_CLUSTERS = 8
PREVIEW_PIXELS = 112


def write_feature_page(
    path: Path,
    notes: Sequence[str],
    table: Sequence[Sequence[str]],
    root: Path,
    names: Sequence[str],
    feats: Tensor,
    unseen: Sequence[int],
    labels: Sequence[int],
    classes: Sequence[str],
) -> None:
    """Write a self-contained HTML file about the features of videos.

    Args:
        path: Path of the page.
        notes: Paragraphs below the title.
        table: Rows of text; the first one is the header.
        root: Folder to which the names of the videos are relative.
        names: Names of the videos, (V,).
        feats: Features, (V, C).
        unseen: Indices of the held-out videos, which are shown with their neighbours; if there
            are none, some of all videos are shown.
        labels: Class of each video, which colours the map; empty to colour it by clusters.
        classes: Names of the classes.
    """
    sims, neighbours = leave_one_out(feats, min(SHOWN_NEIGHBOURS, len(names) - 1))
    pool = unseen or range(len(names))
    shown = [pool[i] for i in evenly_spaced(len(pool), SHOWN_VIDEOS)]
    chosen = evenly_spaced(len(names), MAX_MAP_VIDEOS)
    places, colours, groups = map_videos(feats[chosen], [labels[i] for i in chosen if labels])
    groups = list(classes) if labels else groups
    moving = {i for row in shown for i in (row, *neighbours[row].tolist())}
    with_picture = [chosen[i] for i in evenly_spaced(len(chosen), MAX_PICTURES)]
    pictures = {i: preview(root / names[i], PREVIEW_PIXELS) for i in moving}
    stills = {i: preview(root / names[i], PREVIEW_PIXELS, 1) for i in with_picture}

    def cell(i: int, below: str) -> str:
        name = text(names[i])
        return (
            f'<td><img src="{pictures[i]}" alt="{name}" title="{name}">{below}'
            f'<small>{name}</small></td>'
        )

    points = [
        dict(name=names[i], group=group, picture=stills.get(i, ''))
        for i, group in zip(chosen, colours, strict=True)
    ]
    head, *body = table
    rows = [
        cell(i, 'video')
        + ''.join(
            cell(j, f'{similarity:.3f}')
            for j, similarity in zip(neighbours[i].tolist(), sims[i].tolist(), strict=True)
        )
        for i in shown
    ]
    dots = [
        f'<circle cx="{10 + 620 * x:.1f}" cy="{10 + 620 * y:.1f}" r="5" '
        f'fill="{COLOURS[group % len(COLOURS)]}" data-index="{n}" tabindex="0" '
        f'aria-label="{text(names[i])}"/>'
        for n, (i, group, (x, y)) in enumerate(zip(chosen, colours, places, strict=True))
    ]
    legend = [
        f'<span class="key" style="background:{COLOURS[i % len(COLOURS)]}"></span>{text(group)}'
        for i, group in enumerate(groups)
    ]
    page = Template(TEMPLATE.read_text(encoding='utf-8')).substitute(
        notes='\n'.join(f'<p>{text(note)}</p>' for note in notes),
        table='\n'.join([_row('th', head), *(_row('td', row) for row in body)]),
        rows='\n'.join(f'<tr>{row}</tr>' for row in rows),
        legend=''.join(legend),
        dots='\n'.join(dots),
        # No text can end the script element
        data=json.dumps(dict(groups=groups, points=points)).replace('<', '\\u003c'),
    )
    path.write_text(page, encoding='utf-8')


def map_videos(
    feats: Tensor, labels: Sequence[int] = ()
) -> tuple[np.ndarray, list[int], list[str]]:
    """Map videos to two dimensions (t-SNE) and group them.

    Args:
        feats: Features, (V, C).
        labels: Group of each video; if empty, at most 8 clusters are found.

    Returns:
        Places, (V, 2) from 0 to 1, the group of each video, and the names of the clusters.
    """
    unit = F.normalize(feats, dim=1).numpy()
    perplexity = min(30.0, max(1.0, (len(unit) - 1) / 3))
    places = np.zeros((len(unit), 2))
    if np.ptp(unit, axis=0).any():  # scikit-learn crashes on equal points, as of a collapse
        places = TSNE(init='pca', perplexity=perplexity, random_state=0).fit_transform(unit)
    places = (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-9)
    if labels:
        return places, list(labels), []
    number = max(1, min(MAX_CLUSTERS, len(unit) // 10))
    groups = KMeans(number, n_init=4, random_state=0).fit_predict(unit).tolist()
    return places, groups, [f'cluster {i + 1}' for i in range(number)]


def _row(tag: str, cells: Iterable[str]) -> str:
    return '<tr>' + ''.join(f'<{tag}>{text(cell)}</{tag}>' for cell in cells) + '</tr>'


def show_neighbours(
    out: str | Path, videos: Sequence[str | Path] = (), rows: int = 12, neighbours: int = 5
) -> tuple[Path, list[str]]:
    """Write a page with videos and their nearest neighbours among the videos of a training.

    Args:
        out: Output folder of the training.
        videos: Query videos: files, folders or lists. Default: the held-out videos of the
            training, or all of its videos if none is held out.
        rows: Number of query videos that are shown, evenly spread over all.
        neighbours: Number of neighbours per query.

    Returns:
        Path of the page, ``OUT/neighbours/index.html``, and lines about unreadable videos.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or a source does not exist.
        ValueError: No video can be read, a file of the training is damaged, or a number is below 1.
    """
    if min(rows, neighbours) < 1:
        raise ValueError(f'rows and neighbours must be at least 1, got {rows} and {neighbours}.')
    trained = Trained.read(out)
    lists, names = trained.lists, trained.names
    failed: dict[str, str] = {}
    classes: list[str | None]
    if videos:
        paths = gather_videos(videos)
        shown = [str(Path(paths[i]).absolute()) for i in evenly_spaced(len(paths), rows)]
        feats, failed = _encode(trained, shown)
        shown, classes = [path for path in shown if path not in failed], [None] * len(feats)
        sims, indices = nearest_neighbours(feats, trained.feats, min(neighbours, len(names)))
        what = 'other videos'
    else:
        pool = lists.held_out(names) or list(range(len(names)))
        chosen = [pool[i] for i in evenly_spaced(len(pool), rows)]
        sims, indices = leave_one_out(trained.feats, min(neighbours, len(names) - 1))
        sims, indices = sims[chosen], indices[chosen]
        shown = [str(lists.root / names[i]) for i in chosen]
        classes = [_class_of(trained, i) for i in chosen]
        what = 'held-out videos' if lists.held_out(names) else 'videos'
    queries = [
        Query(
            path,
            label,
            [
                Neighbour(str(lists.root / names[j]), _class_of(trained, j), similarity)
                for j, similarity in zip(found.tolist(), near.tolist(), strict=True)
            ],
        )
        for path, label, found, near in zip(shown, classes, indices, sims, strict=True)
    ]
    note = f'{len(queries)} {what} among the {len(names)} videos below {lists.root}.'
    folder = trained.folder / 'neighbours'
    page, unreadable = write_neighbour_page(folder, 'Nearest neighbours', note, queries)
    lost = [f'{printable(path)}: {reason}' for path, reason in failed.items()]
    return page, [f'Cannot be read: {text}' for text in [*lost, *map(printable, unreadable)]]


def _encode(trained: Trained, paths: Sequence[str]) -> tuple[Tensor, dict[str, str]]:
    """Encode videos that are not of the training; return also the unreadable ones."""
    encoder = load_encoder(trained.folder)
    encoder.to('cuda' if torch.cuda.is_available() else 'cpu')
    feats, failed = [], {}
    for path in paths:
        try:
            feats.append(encoder.features(encoder.transform(path, 4)).mean(0).cpu())
        except UnreadableVideoError as error:
            failed[path] = error.reason
    if not feats:
        path, reason = next(iter(failed.items()))
        raise ValueError(f'None of the videos can be read; the first one is {path}: {reason}.')
    return torch.stack(feats), failed


def _class_of(trained: Trained, place: int) -> str | None:
    label = trained.lists.labels.get(trained.names[place], -1)
    return trained.lists.classes[label] if label >= 0 else None
