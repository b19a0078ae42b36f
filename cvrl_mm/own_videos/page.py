"""Pages with pictures: neighbours and a map of all videos, and the mistakes of a classifier."""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from os.path import relpath
from pathlib import Path
from string import Template

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import pyplot as plt
from mmaction.evaluation import ConfusionMatrix, top_k_accuracy
from sklearn.manifold import TSNE
from torch import Tensor

from ..datasets.lists import gather_videos
from ..evaluation.encoder import load_encoder
from ..evaluation.features import describe_lost
from ..evaluation.measures import nearest_neighbours
from ..io import evenly_spaced, printable
from ..visualization.pages import (
    HEAD,
    STYLE,
    TIP,
    Neighbour,
    Query,
    html_page,
    neighbour_rows,
    pictures,
    text,
    write_neighbour_page,
)
from .folder import Trained, encode_videos, video_root
from .predict import Prediction, plain

TEMPLATE = Path(__file__).with_name('page.html')
# Colours that can be distinguished with colour-blindness (Okabe & Ito)
COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#999999', '#F0E442')
SHOWN_VIDEOS, SHOWN_NEIGHBOURS = 8, 5
SPARE_NEIGHBOURS = 5  # in place of the query and its copies
MAX_MAP_VIDEOS = 500  # each with a picture
MAP_PIXELS = 72  # longer side of a frame
SHOWN_MISTAKES = 12
MOST_WITH_VALUES = 30  # classes of a confusion matrix; the values of 100 take 37 s to draw


def write_feature_page(
    path: Path,
    verdict: str,
    notes: Sequence[str],
    table: Sequence[Sequence[str]],
    trained: Trained,
) -> None:
    """Write a self-contained HTML file about the features of videos.

    Args:
        path: Path of the page.
        verdict: The most important sentence.
        notes: Paragraphs below the table.
        table: Rows of text; the first one is the header.
        trained: The videos and their features. The held-out ones are shown with their neighbours,
            or some of all videos if there are none. The classes colour the map.
    """
    names, lists = trained.names, trained.lists
    labels, groups = lists.labels_of(names), [*lists.classes, 'no class']
    if not labels:
        labels, groups = [0] * len(names), ['a video']
    rows, _ = neighbour_rows(_held_out(trained, SHOWN_VIDEOS, SHOWN_NEIGHBOURS))
    chosen, dots = evenly_spaced(len(names), MAX_MAP_VIDEOS), []
    for i, (x, y) in zip(chosen, map_videos(trained.feats[chosen]), strict=True):
        picture, _ = pictures(lists.root / names[i], MAP_PIXELS)
        about = text(f'{names[i]} ({groups[labels[i]]})')  # -1 is the last group
        dots.append(
            f'<circle cx="{10 + 620 * x:.1f}" cy="{10 + 620 * y:.1f}" r="5" '
            f'fill="{_colour(labels[i] % len(groups))}" data-tip="{picture}" aria-label="{about}"/>'
        )
    legend = [
        f'<span><i class="key" style="background:{_colour(i)}"></i>{text(groups[i])}</span>'
        for i in sorted({label % len(groups) for label in labels})
    ]
    head, *body = table
    page = Template(HEAD + TEMPLATE.read_text(encoding='utf-8')).substitute(
        style=STYLE,
        verdict=text(verdict),
        notes='\n'.join(f'<p>{text(note)}</p>' for note in notes),
        table='\n'.join([_row('th', head), *(_row('td', row) for row in body)]),
        whose='a held-out video' if lists.held_out(names) else 'a video',
        rows=rows,
        legend='\n'.join(legend),
        shown=f'{len(chosen)} of {len(names)} videos',
        dots='\n'.join(dots),
        tip=TIP,
    )
    path.write_text(page, encoding='utf-8')


def _colour(group: int) -> str:
    if group < len(COLOURS):
        return COLOURS[group]
    return f'hsl({137.5 * group % 360:.0f} 75% {30 + 15 * (group % 3)}%)'  # the golden angle


def _held_out(trained: Trained, rows: int, neighbours: int) -> list[Query]:
    """Return some held-out videos of a training, or some of all if there are none."""
    pool = trained.lists.held_out(trained.names) or range(len(trained.names))
    chosen = [pool[i] for i in evenly_spaced(len(pool), rows)]
    paths, classes = map(trained.path, chosen), map(trained.class_of, chosen)
    return _queries(trained, paths, classes, trained.feats[chosen], neighbours)


def _queries(
    trained: Trained,
    paths: Iterable[str],
    classes: Iterable[str | None],
    feats: Tensor,
    neighbours: int,
) -> list[Query]:
    """Put videos together with their neighbours among the videos of a training."""
    k = min(neighbours + SPARE_NEIGHBOURS, len(trained.names))
    sims, indices = nearest_neighbours(feats, trained.feats, k)
    queries = []
    for path, label, *near in zip(paths, classes, sims.tolist(), indices.tolist(), strict=True):
        others = [
            Neighbour(trained.path(i), trained.class_of(i), similarity)
            for similarity, i in zip(*near, strict=True)
        ]
        queries.append(Query(path, label, others).without_copies(neighbours))
    return queries


def map_videos(feats: Tensor) -> np.ndarray:
    """Map features, (V, C), to two dimensions by t-SNE; return places, (V, 2) from 0 to 1."""
    unit = F.normalize(feats, dim=1).numpy()
    perplexity = min(30.0, max(1.0, (len(unit) - 1) / 3))
    places = np.zeros((len(unit), 2))
    if np.ptp(unit, axis=0).any():  # scikit-learn crashes on equal points, as of a collapse
        places = TSNE(init='pca', perplexity=perplexity, random_state=0).fit_transform(unit)
    return (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-9)


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
        FileNotFoundError: ``out`` does not hold a finished training, or the folder of its videos
            or a source does not exist.
        ValueError: No video can be read, a file of the training is damaged, or a number is below 1.
    """
    if min(rows, neighbours) < 1:
        raise ValueError(f'rows and neighbours must be at least 1, got {rows} and {neighbours}.')
    trained = Trained.read(out)
    video_root(trained.folder)
    failed: dict[str, str] = {}
    if videos:
        paths = gather_videos(videos)
        paths = [str(Path(paths[i]).absolute()) for i in evenly_spaced(len(paths), rows)]
        _, found = encode_videos({'': load_encoder(trained.folder)}, paths)
        failed = {paths[i]: reason for i, reason in found.errors.items()}
        read = [paths[i] for i in found.indices]
        queries = _queries(trained, read, [None] * len(read), found.vectors, neighbours)
        what = 'other videos'
    else:
        queries = _held_out(trained, rows, neighbours)
        what = 'held-out videos' if trained.lists.held_out(trained.names) else 'videos'
    note = (
        f'{len(queries)} {what} among the {len(trained.names)} videos below {trained.lists.root}.'
    )
    folder = trained.folder / 'neighbours'
    page, unreadable = write_neighbour_page(folder, 'Nearest neighbours', note, queries)
    lost = [f'{path}: {reason}' for path, reason in failed.items()]
    return page, [f'Cannot be read: {printable(text)}' for text in [*lost, *unreadable]]


def write_classifier_page(
    folder: Path,
    training: str,
    root: Path,
    classes: Sequence[str],
    found: Sequence[Prediction],
    labels: Sequence[int],
) -> list[str]:
    """Write ``confusion.png``, ``index.html`` and ``report.json`` of a classifier.

    Args:
        folder: Output folder.
        training: A sentence on the training.
        root: The folder that the videos' names are relative to.
        classes: Names of the classes.
        found: Predictions of the held-out videos.
        labels: Their classes.

    Returns:
        The paragraphs of the report.

    Raises:
        ValueError: None of the videos can be read.
    """
    pairs = [(p, label) for p, label in zip(found, labels, strict=True) if p.error is None]
    lost = describe_lost({p.video: p.error for p in found if p.error is not None})
    if not pairs:
        raise ValueError(f'No report was written: {lost[0]}')
    probs, true = torch.cat([p.probs for p, _ in pairs]), [label for _, label in pairs]
    predicted = probs.argmax(1).tolist()
    ks = (1, 5) if len(classes) > 5 else (1,)
    accuracy = dict(zip(ks, top_k_accuracy(probs.numpy(), true, ks), strict=True))
    chance = max(Counter(true).values()) / len(true)
    shown = ', '.join(f'top-{k} {100 * share:.1f} %' for k, share in accuracy.items())
    notes = [
        f'{shown} on {len(true)} held-out videos of {len(classes)} classes; always the '
        f'most frequent class: {100 * chance:.1f} %.',
        training,
        *lost,
    ]
    matrix = ConfusionMatrix.calculate(probs, torch.tensor(true), num_classes=len(classes))
    _plot_confusion(matrix, classes, folder / 'confusion.png')
    own = probs[range(len(true)), true]
    wrong = [i for i in own.argsort().tolist() if predicted[i] != true[i]][:SHOWN_MISTAKES]
    figures = [
        _mistake(pairs[i][0], root, classes, dict(predicted=predicted[i], true=true[i]))
        for i in wrong
    ]
    page = _classifier_page(notes, folder / 'confusion.png', figures)
    (folder / 'index.html').write_text(page, encoding='utf-8')
    numbers = {f'top{k}': share for k, share in accuracy.items()} | dict(
        chance=chance,
        videos=len(true),
        confusion=matrix.tolist(),
        classified=[
            [printable(p.video), classes[label], classes[guess]]
            for (p, label), guess in zip(pairs, predicted, strict=True)
        ],
    )
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    return notes


def _classifier_page(notes: Sequence[str], confusion: Path, figures: Sequence[str]) -> str:
    picture = base64.b64encode(confusion.read_bytes()).decode()
    return html_page(
        'Your classifier',
        *(f'<p>{text(note)}</p>' for note in notes),
        f'<img alt="confusion matrix" src="data:image/png;base64,{picture}">',
        '<h2>The worst mistakes</h2>',
        '<p>Each video with its predicted and its true class, and their probabilities.</p>',
        f'<div class="row">{"".join(figures)}</div>',
    )


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


def _mistake(found: Prediction, root: Path, classes: Sequence[str], labels: dict[str, int]) -> str:
    """Return a video with its classes and their probabilities as HTML."""
    lines = [
        f'{what}: <b>{text(classes[label])}</b> ({100 * found.probs[0, label]:.0f}&nbsp;%)'
        for what, label in labels.items()
    ]
    name = text(relpath(found.video, root))
    return (
        f'<figure><img src="{pictures(found.video)[1]}" alt="{name}">{"<br>".join(lines)}'
        f'<small>{name}</small></figure>'
    )
