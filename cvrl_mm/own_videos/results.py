"""Write the results of a training: encoder, features, curves, report and page."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE
from torch import Tensor

from ..evaluation import features
from ..evaluation.encoder import load_encoder
from ..evaluation.knn import leave_one_out
from ..io import evenly_spaced, printable, progress, replacing
from ..visualization.curves import plot_curves, read_curves
from ..visualization.feature_page import Point, Row, write_feature_page
from .config_file import INIT
from .encoding import NUM_CLIPS, encode, starting_encoder, write_features
from .lists import MIN_TO_HOLD_OUT
from .measures import Measure, measure, verdict
from .trained import FEATURES_BEFORE, Lists
from .training import final_checkpoint

SHOWN_VIDEOS = 8
SHOWN_NEIGHBOURS = 5
MAX_MAP_VIDEOS = 3000
MAX_CLUSTERS = 8
BEFORE, AFTER = 'before training', 'after training'


def write_results(folder: Path, cfg: Config, console: Console, init: str | None = None) -> None:
    """Write all results of a training to its output folder.

    Args:
        folder: Output folder; its subfolder ``training`` contains the checkpoints.
        cfg: Config of the training.
        console: Console for the progress bars.
        init: The checkpoint of ``--init`` as the user named it, if known.

    Raises:
        FileNotFoundError: The folder of the videos does not exist.
        ValueError: Too few videos can be read for a report.
    """
    lists = Lists.read(folder, cfg)
    if not lists.root.is_dir():
        raise FileNotFoundError(
            f'The folder of the videos, {lists.root}, does not exist. No report was written. Make '
            f'it available again, or replace its path in {folder / "config.py"}; then start the '
            'same command again.'
        )
    trained = load_encoder(final_checkpoint(cfg), cfg)
    trained.save(folder / 'encoder.safetensors')

    encoders = {BEFORE: starting_encoder(cfg), AFTER: trained}
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    workers = cfg.train_dataloader.num_workers
    with progress('Encoding all videos', console) as on_progress:
        feats, names, failed = encode(
            encoders, lists.root, lists.names, workers, device, on_progress
        )
    check_readable(lists, names, failed)
    write_features(folder, names, feats[AFTER].mean(1).numpy())
    features.write_features(folder / FEATURES_BEFORE, names, feats[BEFORE].mean(1))
    unseen = lists.held_out(names)
    curves = {'training': read_curves(cfg.work_dir)}
    plot_curves(curves, folder / 'curves.png', _panels(bool(unseen)))

    labels = lists.labels_of(names)
    classes = lists.classes if labels else []
    with progress('Measuring', console) as on_progress:
        measures: dict[str, list[Measure]] = {}
        for done, (when, x) in enumerate(feats.items(), 1):
            measures[when] = measure(x, unseen, labels)
            on_progress(done, len(feats))
    table = _table(measures)
    headline = verdict(measures[BEFORE][0], measures[AFTER][0])
    started = _started(folder, cfg, init)
    notes = [headline, *_notes(cfg, started, len(names), len(unseen), classes, failed)]
    with progress('Drawing the page', console) as on_progress:
        mean = feats[AFTER].mean(1)
        points, groups = _map(mean, names, labels, classes)
        rows = _rows(mean, names, unseen)
        page = folder / 'index.html'
        write_feature_page(page, 'Your videos', notes, table, rows, points, groups, lists.root)
        on_progress(1, 1)
    numbers = {
        when: [{k: v for k, v in asdict(m).items() if k != 'hits'} for m in found]
        for when, found in measures.items()
    }
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    with replacing(folder / 'report.md') as part:  # a report marks a finished training
        part.write_text(_report(folder, notes, table), encoding='utf-8')
    console.print(headline, markup=False)
    if failed:
        console.print(f'{_describe(failed, len(lists.names))}.', markup=False)


def check_readable(lists: Lists, names: list[str], failed: dict[str, str]) -> None:
    """Check that most videos, and at least one of the held-out videos, could be read.

    A report of the others would look like one of a smaller folder, and would not be replaced.

    Args:
        lists: The lists of the training.
        names: The videos that could be read.
        failed: The other videos, as ``{name: reason}``.

    Raises:
        ValueError: Half of the videos or more, or all held-out videos, could not be read.
    """
    none_held_out = lists.held_out(lists.names) and not lists.held_out(names)
    if none_held_out or len(failed) >= len(names):
        which = ', among them all held-out videos' if none_held_out else ''
        raise ValueError(
            f'{_describe(failed, len(lists.names))}{which}. No report was written. Make them '
            'available again, and start the same command again.'
        )


def _describe(failed: dict[str, str], total: int) -> str:
    """Say how many videos could not be read, and name the first one, without a full stop."""
    name, reason = next(iter(failed.items()))
    return f'{len(failed)} of {total} videos could not be read, such as {printable(name)}: {reason}'


def _panels(held_out: bool) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the panels of the curves: title, unit and scalars."""
    whose = 'held-out' if held_out else 'training'
    return [
        ('contrastive loss', 'nats', ('loss',)),
        ('accuracy in the batch', '%', ('accuracy',)),
        ('learning rate', '', ('lr',)),
        (f'retrieval among the {whose} videos', '%', ('representation/clip_retrieval',)),
        (f'effective rank, {whose} videos', '', ('representation/feature_rank',)),
        (f'k-NN by folder, {whose} videos', '%', ('representation/knn_top1',)),
    ]


def _started(folder: Path, cfg: Config, init: str | None) -> str:
    """Describe what the training started from; ``folder`` holds a copy of ``init``."""
    init_cfg = cfg.model.backbone.get('init_cfg')
    if not init_cfg:
        return 'random weights'
    is_copy = Path(init_cfg.checkpoint) == folder / INIT
    return init if is_copy and init is not None else init_cfg.checkpoint


def _table(measures: dict[str, list[Measure]]) -> list[list[str]]:
    head = ['', *measures, 'chance']
    rows = [
        [
            found[0].title + (' (%)' if found[0].percent else ''),
            *map(str, found),
            '' if found[0].chance is None else f'{found[0].chance:.1f}',
        ]
        for found in zip(*measures.values(), strict=True)
    ]
    return [head, *rows]


def _notes(
    cfg: Config,
    started: str,
    videos: int,
    unseen: int,
    classes: list[str],
    failed: dict[str, str],
) -> list[str]:
    held = f'{unseen} of them held out'
    if not unseen:
        held = f'none held out (fewer than {MIN_TO_HOLD_OUT}): measured on the training videos'
    judged = (
        'Judge by the first row: training makes its own videos easy to find, so only held-out '
        'videos show generalisation. '
    )
    whose = 'held-out'
    if not unseen:
        judged = (
            'Training makes its own videos easy to find, so these numbers do not show '
            'generalisation. '
        )
        whose = 'training'
    notes = [
        f'{videos} videos, {held}; {cfg.train_cfg.max_iters} steps of '
        f'{cfg.train_dataloader.batch_size} videos per device, started from {started}. Every '
        f'video is represented by the mean feature of {NUM_CLIPS} evenly spaced clips.',
        'Retrieval searches for a video among all videos, with another part of it as the query '
        f'and without labels. {judged}Static scenes are easy to find even with random weights. '
        'curves.png shows an easier measure during the training: retrieval among the '
        f'{whose} videos only, with two clips per video.',
    ]
    if classes:
        notes.append(
            'The folders are used as classes only here: mean ± standard deviation over 20 random '
            'splits of 70 % and 30 %. Chance is the share of the largest folder in the 30 %. '
            f'{"Most" if unseen else "All"} of these videos were used in training, without labels.'
        )
    if failed:
        notes.append(f'{_describe(failed, videos + len(failed))}.')
    return notes


def _rows(feats: Tensor, names: list[str], unseen: list[int]) -> list[Row]:
    k = min(SHOWN_NEIGHBOURS, len(names) - 1)
    sims, indices = leave_one_out(feats, k)
    pool = unseen or list(range(len(names)))
    shown = evenly_spaced(len(pool), SHOWN_VIDEOS)
    return [
        Row(
            names[i],
            [(names[j], s) for j, s in zip(indices[i].tolist(), sims[i].tolist(), strict=True)],
        )
        for i in (pool[place] for place in shown)
    ]


def _map(
    feats: Tensor, names: list[str], labels: list[int], classes: list[str]
) -> tuple[list[Point], list[str]]:
    """Map the videos to two dimensions (t-SNE), coloured by folder or by cluster."""
    unit = torch.nn.functional.normalize(feats, dim=1).numpy()
    chosen = evenly_spaced(len(names), MAX_MAP_VIDEOS)
    unit = unit[chosen]
    perplexity = min(30.0, max(1.0, (len(unit) - 1) / 3))
    if np.ptp(unit, axis=0).any():
        places = TSNE(init='pca', perplexity=perplexity, random_state=0).fit_transform(unit)
    else:  # the encoder has collapsed; scikit-learn crashes on equal points
        places = np.zeros((len(unit), 2))
    places = (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-9)
    if labels:
        groups, colours = classes, [labels[i] for i in chosen]
    else:
        number = max(1, min(MAX_CLUSTERS, len(unit) // 10))
        colours = KMeans(number, n_init=4, random_state=0).fit_predict(unit).tolist()
        groups = [f'cluster {i + 1}' for i in range(number)]
    points = [
        Point(names[i], float(x), float(y), int(colour))
        for i, (x, y), colour in zip(chosen, places, colours, strict=True)
    ]
    return points, groups


def _report(folder: Path, notes: list[str], table: list[list[str]]) -> str:
    head, *rows = [' | '.join(row) for row in table]
    rule = '|'.join(['---', *['---:'] * (len(table[0]) - 1)])
    files: dict[str, Any] = {
        'encoder.safetensors': '`cvrl_mm.load_encoder` reads it',
        'features.npz': '`names` and `feats`, one row per video',
        'index.html': 'neighbours and a map of all videos',
        'curves.png': 'loss, accuracy and retrieval during the training',
        'config.py': 'all settings with their reasons',
        'videos.tsv': 'all files, also those that cannot be used',
        'training': 'checkpoints and logs',
    }
    lines = ['# Report', '', *(f'{note}\n' for note in notes), f'| {head} |', f'|{rule}|']
    lines += [f'| {row} |' for row in rows]
    lines += ['', '| file | content |', '|---|---|']
    lines += [f'| {name} | {text} |' for name, text in files.items() if (folder / name).exists()]
    return '\n'.join(lines) + '\n'
