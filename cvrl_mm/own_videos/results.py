"""Pictures and a page of a classifier: the classes of a video over time, and its mistakes."""

import base64
import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from os.path import relpath
from pathlib import Path

import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from mmaction.evaluation import ConfusionMatrix, top_k_accuracy
from rich.console import Console

from ..datasets.lists import gather_videos
from ..io import one_line, printable, replacing
from ..visualization.pages import html_page, preview, text
from .folder import describe_failed
from .predict import Prediction, load_classifier, predict

SHOWN, SHOWN_CLASSES, SHOWN_MISTAKES = 3, 8, 12  # printed, in a figure, on the page
MOST_WITH_VALUES = 30  # classes of a confusion matrix; the values of 100 take 37 s to draw
MOST_CHARACTERS = 50  # of a video's name in that of a picture: at most 200 of 255 bytes


def write_report(
    folder: Path,
    training: str,
    root: Path,
    classes: Sequence[str],
    found: Sequence[Prediction],
    labels: Sequence[int],
    console: Console,
) -> None:
    """Write ``confusion.png``, ``index.html``, ``report.json`` and a report.

    Args:
        folder: Output folder.
        training: A sentence on the training.
        root: The folder that the videos' names are relative to.
        classes: Names of the classes.
        found: Predictions of the held-out videos.
        labels: Their classes.
        console: Where to print the result.

    Raises:
        ValueError: None of the videos can be read.
    """
    pairs = [(p, label) for p, label in zip(found, labels, strict=True) if p.error is None]
    failed = {p.video: p.error for p in found if p.error is not None}
    if not pairs:
        raise ValueError(f'No report was written: {describe_failed(failed, len(found))}')
    probs, true = torch.cat([p.probs for p, _ in pairs]), [label for _, label in pairs]
    ks = (1, 5) if len(classes) > 5 else (1,)
    accuracy = dict(
        zip([f'top{k}' for k in ks], top_k_accuracy(probs.numpy(), true, ks), strict=True)
    )
    chance = max(Counter(true).values()) / len(true)
    matrix = ConfusionMatrix.calculate(probs, torch.tensor(true), num_classes=len(classes))
    figure = ConfusionMatrix.plot(
        matrix,
        include_values=len(classes) <= MOST_WITH_VALUES,
        classes=[plain(name) for name in classes],
        show=False,
    )
    figure.axes[0].tick_params(axis='x', rotation=90)
    figure.savefig(folder / 'confusion.png', dpi=100, bbox_inches='tight')
    plt.close(figure)  # or a notebook shows it as well
    predicted = probs.argmax(1).tolist()
    shown = ', '.join(f'{name[:3]}-{name[3:]} {100 * x:.1f} %' for name, x in accuracy.items())
    notes = [
        f'{shown} on {len(true)} held-out videos of {len(classes)} classes; always the most '
        f'frequent class: {100 * chance:.1f} %.',
        training,
    ]
    if failed:
        notes.append(describe_failed(failed, len(found)))
    own = probs[range(len(true)), true]
    wrong = [i for i in own.argsort().tolist() if predicted[i] != true[i]][:SHOWN_MISTAKES]
    figures = []
    for i in wrong:
        video = pairs[i][0].video
        lines = [
            f'{what}: <b>{text(classes[label])}</b> ({100 * probs[i, label]:.0f}&nbsp;%)'
            for what, label in (('predicted', predicted[i]), ('true', true[i]))
        ]
        name = text(relpath(video, root))
        figures.append(
            f'<figure><img src="{preview(video)}" alt="{name}">{"<br>".join(lines)}'
            f'<small>{name}</small></figure>'
        )
    picture = base64.b64encode((folder / 'confusion.png').read_bytes()).decode()
    page = html_page(
        'Your classifier',
        *(f'<p>{text(note)}</p>' for note in notes),
        f'<img alt="confusion matrix" src="data:image/png;base64,{picture}">',
        '<h2>The worst mistakes</h2>',
        '<p>Each video with its predicted and its true class, and their probabilities.</p>',
        f'<div class="row">{"".join(figures)}</div>',
    )
    (folder / 'index.html').write_text(page, encoding='utf-8')
    numbers = accuracy | dict(chance=chance, videos=len(true), confusion=matrix.tolist())
    numbers['classified'] = [
        [printable(p.video), classes[label], classes[guess]]
        for (p, label), guess in zip(pairs, predicted, strict=True)
    ]
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    with replacing(folder / 'report.md') as part:  # a report marks a finished training
        part.write_text('\n\n'.join(['# Report', *notes]) + '\n', encoding='utf-8')
    console.print(*notes, sep='\n', markup=False)


def plot_over_time(prediction: Prediction, classes: Sequence[str], path: Path) -> None:
    """Draw the probabilities of the most probable classes over time to a picture."""
    assert prediction.times is not None
    middles = prediction.times.mean(1)
    figure = Figure(figsize=(10, 4), layout='constrained')
    axes = figure.subplots()
    shown = prediction.probs.amax(0).argsort(descending=True)[:SHOWN_CLASSES].tolist()
    for i in sorted(shown):
        axes.plot(middles, 100 * prediction.probs[:, i], marker='.', label=plain(classes[i]))
    axes.set(xlabel='time (s)', ylabel='probability (%)', ylim=(0, 105))
    axes.set_title(plain(Path(prediction.video).name))
    figure.legend(loc='outside right upper')
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def plain(label: str) -> str:
    """Return a printable label of a figure, in which matplotlib finds no formula."""
    text = printable(label).replace('$', r'\$')
    return f' {text}' if text.startswith('_') else text  # a legend leaves out "_name"


def print_predictions(
    path: str | Path, videos: Sequence[str], every_seconds: float | None = None, form: str = 'text'
) -> None:
    """Print the classes of videos, and draw those of the windows of long videos.

    Args:
        path: Folder of the classifier; pictures are written to its subfolder ``predictions``.
        videos: Videos, folders and lists.
        every_seconds: See :func:`predict`.
        form: ``'text'``, ``'json'`` or ``'csv'``; JSON and CSV have all classes.

    Raises:
        OSError: The classifier or a source does not exist.
        ValueError: This is no classifier, or no video could be read.
    """
    classifier = load_classifier(path).to('cuda' if torch.cuda.is_available() else 'cpu')
    paths, failed, listed = gather_videos(videos), [], []
    rows = csv.writer(sys.stdout)
    if form == 'csv':
        spans = ['start', 'end'] if every_seconds else []
        rows.writerow(['video', *spans, *map(printable, classifier.classes)])
    for found in predict(classifier, paths, every_seconds):
        if found.error is not None:
            failed.append(f'{printable(found.video)}: {found.error}')
            continue
        for i, probs in enumerate(found.probs):
            times = [] if found.times is None else found.times[i].tolist()
            classes = classifier.named(probs)
            if form == 'csv':
                rows.writerow([printable(found.video), *times, *probs.tolist()])
            elif form == 'json':
                span = dict(zip(('start', 'end'), times, strict=False))
                listed.append(dict(video=found.video, **span, classes=classes))
            else:
                at = ' {:.2f}-{:.2f} s'.format(*times) if times else ''
                best = ', '.join(f'{k} {100 * v:.1f} %' for k, v in [*classes.items()][:SHOWN])
                print(f'{printable(found.video)}{at}: {printable(best)}', flush=True)
        if found.times is not None:
            # A hash of the path, so that videos of other folders and calls keep their pictures
            digest = sha256(os.fsencode(os.path.abspath(found.video))).hexdigest()[:8]
            stem = printable(Path(found.video).stem)[:MOST_CHARACTERS]
            name = f'{stem}_{digest}_every_{every_seconds:g}.png'
            picture = Path(path) / 'predictions' / name
            note = f'The classes over time: {printable(picture)}'
            try:
                plot_over_time(found, classifier.classes, picture)
            except (OSError, ValueError) as error:  # such as a folder that is read-only
                note = f'{printable(picture)} cannot be drawn: {one_line(error)}'
            print(note, file=sys.stderr)
    if form == 'json':
        print(json.dumps(listed, indent=2))
    if len(failed) == len(paths):
        print(*failed, sep='\n', file=sys.stderr)
        raise ValueError('None of the videos could be classified.')
    if failed:
        left_out = f'{len(failed)} of {len(paths)} videos could not be classified.'
        print(*failed, left_out, sep='\n', file=sys.stderr)
