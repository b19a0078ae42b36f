"""Write the results of a training: encoder, features, curves, report and page."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from rich.console import Console
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from torch import Tensor

from ..evaluation.collapse import effective_rank
from ..evaluation.encoder import Encoder
from ..evaluation.features import FeatureStore
from ..evaluation.knn import knn_classify, voters
from ..evaluation.linear_probe import linear_predictions
from ..io import evenly_spaced, files_sha256, printable, progress, replacing
from ..visualization.curves import PANELS, plot_curves, read_curves
from .folder import (
    AFTER,
    BEFORE,
    FEATURES,
    NUM_CLIPS,
    Lists,
    Trained,
    describe_failed,
    encode_videos,
    read_command,
    read_encoders,
    video_root,
    write_encoders,
)
from .page import write_feature_page
from .plan import MIN_STEPS, MIN_TO_HOLD_OUT, counted, too_short

TEMPLATE = Path(__file__).with_name('report.template')
FOLDS = 5
HALVES, SURE = 200, 0.975  # random halves of the videos; share for a clear change
EASY = 90.0  # accuracy before the training in percent, above which little can be gained
MAX_RANKED = 1000  # videos, for time
WATCHED = ('representation/clip_retrieval', 'representation/knn_top1')
CURVES = ('loss', 'accuracy', 'lr', *WATCHED)
WITH_LABELS = (
    'Accuracy: classifiers on the features, tested on {tested} and fitted to the others. The '
    'folders are used as classes only for this. {caution}'
)
SHARED = (
    'Videos that are split at random may share persons or recordings, which makes all numbers '
    'higher or lower; cvrl probe OUT --groups PATTERN keeps these apart.'
)
BELOW_CHANCE = (
    'k-NN accuracy is below chance: the nearest neighbours share something other than the class, '
    'such as the recording.'
)
WITHOUT_LABELS = (
    'Only labels can tell: with those of some videos, cvrl probe OUT --labels LIST measures '
    'accuracies.'
)
UNCLEAR = 'Not clear yet'
Folds = Sequence[tuple[Tensor, Tensor]]


def write_results(folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
    """Write all results of a training to its output folder.

    Args:
        folder: Output folder; its subfolder ``training`` contains the checkpoints.
        cfg: Config of the training.
        checkpoint: The last checkpoint.
        console: Console for the progress bars.

    Raises:
        FileNotFoundError: The folder of the videos does not exist.
        ValueError: Too few videos can be read for a report, or features are not finite.
    """
    lists = Lists.read(folder)
    video_root(folder)
    (folder / FEATURES).unlink(missing_ok=True)  # never those of another encoder
    write_encoders(folder, cfg, checkpoint)
    encoders = read_encoders(folder)
    videos = [lists.root / name for name in lists.names]
    basis = files_sha256([checkpoint, folder / 'config.py', *videos])
    store = FeatureStore(folder / f'.features_{basis[:16]}', dict(files=basis))
    workers = cfg.train_dataloader.num_workers
    with progress('Encoding all videos', console) as on_progress:
        feats, names, failed = encode(encoders, lists, store, workers, on_progress)
    after, before = feats[AFTER].numpy(), feats[BEFORE].numpy()
    with replacing(folder / FEATURES) as part:
        sizes = [(lists.root / name).stat().st_size for name in names]
        np.savez(part, names=np.array(names), feats=after, feats_untrained=before, bytes=sizes)
    unseen, labels = lists.held_out(names), lists.labels_of(names)
    curves = {'training': read_curves(cfg.work_dir)}
    panels = [panel for panel in PANELS if panel[2][0] in CURVES]
    plot_curves(curves, folder / 'curves.png', panels)
    console.print('Measuring and drawing …')
    measures = {when: measure(x, unseen, labels) for when, x in feats.items()}
    table = [['', BEFORE, AFTER, *(['chance'] if labels else [])]]
    for old, new in zip(*measures.values(), strict=True):
        values = (old.value, new.value, *([new.chance] if labels else []))
        table.append([new.title, *('' if x is None else f'{x:.1f}' for x in values)])
    headline = verdict(measures[BEFORE], measures[AFTER])
    seconds = np.median([*curves['training'].get('time', {0: math.nan}).values()])
    headline = f'{headline} {too_short(cfg.train_cfg.max_iters, MIN_STEPS, seconds)}'.rstrip()
    accuracy = [*curves['training'].get('accuracy', {0: math.nan}).values()][-1]
    notes = _notes(cfg, folder, names, unseen, labels, failed, accuracy, measures[AFTER])
    write_feature_page(folder / 'index.html', headline, notes, table, Trained.read(folder))
    numbers = {
        when: [dict(title=m.title, value=m.value, chance=m.chance) for m in found]
        for when, found in measures.items()
    }
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    with replacing(folder / 'report.md') as part:  # a report marks a finished training
        part.write_text(_report(headline, notes, table), encoding='utf-8')
    for unfinished in folder.glob('.features_*'):  # also those of replaced videos
        shutil.rmtree(unfinished)
    console.print(headline, markup=False)
    if failed:
        console.print(notes[-1], markup=False)


def encode(
    encoders: dict[str, Encoder],
    lists: Lists,
    store: FeatureStore,
    num_workers: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Tensor], list[str], dict[str, str]]:
    """Compute the features of all videos with several encoders; each video is decoded once.

    Args:
        encoders: Encoders by name; all take the same clips.
        lists: The videos.
        store: Keeps the features, so that an interrupted computation can continue.
        num_workers: Number of decoding processes.
        on_progress: Called with the number of finished videos and the number of all videos.

    Returns:
        Three values: features by name of the encoder, (V, C) float32 on the CPU, the means over
        the clips; the names of the V videos that could be read; and the unreadable videos, as
        ``{name: reason}``.

    Raises:
        ValueError: Half of the videos or more, or all held-out videos, cannot be read: a report of
            the others would look like one of a smaller folder. Or features are not finite.
    """
    paths = [str(lists.root / name) for name in lists.names]
    feats, unread = encode_videos(encoders, paths, store, num_workers, on_progress)
    failed = {n: unread[p] for n, p in zip(lists.names, paths, strict=True) if p in unread}
    names = [name for name in lists.names if name not in failed]
    none_held_out = lists.held_out(lists.names) and not lists.held_out(names)
    if none_held_out or len(failed) >= len(names):
        store.remove()  # the videos may be available later
        which = ' Among them are all held-out videos.' if none_held_out else ''
        raise ValueError(
            f'{describe_failed(failed, len(paths))}{which} No report was written. Make them '
            'available again, and start the same command again.'
        )
    return feats, names, failed


@dataclass(frozen=True)
class Measure:
    """One result of an evaluation.

    Attributes:
        title: Title in the report, with the unit.
        value: The result.
        chance: Level of chance; None if there is none.
        hits: Of an accuracy, 1 for each test video that is classified rightly, else 0, (N,).
    """

    title: str
    value: float
    chance: float | None = None
    hits: np.ndarray = field(default_factory=lambda: np.empty(0))


def measure(feats: Tensor, held_out: Sequence[int], labels: Sequence[int]) -> list[Measure]:
    """Measure an encoder.

    Args:
        feats: Features of all videos, (V, C).
        held_out: Indices of the held-out videos; empty if there are none.
        labels: Class of each video, given by its folder, or -1; empty if there are no classes.

    Returns:
        With labels, the accuracies on the held-out videos of classifiers that are fitted to the
        others; and RankMe.
    """
    chosen = feats[evenly_spaced(len(feats), MAX_RANKED)]
    found = [Measure('RankMe (number of directions)', rank_me(chosen.numpy()))]
    if not labels:
        return found
    known = torch.tensor([i for i, label in enumerate(labels) if label >= 0])
    classes = torch.tensor(labels)[known]
    is_test = torch.isin(known, torch.tensor(held_out, dtype=torch.long))
    folds: Folds = [(torch.nonzero(~is_test)[:, 0], torch.nonzero(is_test)[:, 0])]
    if not is_test.any() or len(classes[~is_test].unique()) < 2:
        folds = split_in_folds(classes)
    return [*classify(feats[known], classes, folds), *found]


def rank_me(feats: np.ndarray) -> float:
    """Compute RankMe of features, (V, C), which needs no labels; see :func:`effective_rank`."""
    return effective_rank(torch.from_numpy(feats), centred=False)


def classify(feats: Tensor, labels: Tensor, folds: Folds) -> list[Measure]:
    """Measure linear and k-NN accuracy; the level of chance is the most frequent class's share.

    Args:
        feats: Features, (V, C).
        labels: Labels, (V,).
        folds: Indices of training and test videos.

    Returns:
        Linear accuracy, k-NN accuracy with k of at most 20 and half the smallest class of the
        training videos, and 1-NN accuracy.
    """
    unit = F.normalize(feats, dim=1)
    ks = {min(voters(labels[train]) for train, _ in folds), 1}
    hits: dict[str, list[float]] = {
        name: [] for name in ('linear', *(f'{k}-NN' for k in sorted(ks, reverse=True)))
    }
    for train, test in folds:
        predicted = {'linear': linear_predictions(unit[train], labels[train], unit[test])}
        for k in ks:
            predicted[f'{k}-NN'] = knn_classify(unit[test], unit[train], labels[train], k)
        for name, classes in predicted.items():
            hits[name] += (classes == labels[test]).double().tolist()
    tested = labels[torch.cat([test for _, test in folds])]
    chance = 100 * int(tested.unique(return_counts=True)[1].max()) / len(tested)
    return [
        Measure(f'{name} accuracy (%)', float(100 * np.mean(found)), chance, np.array(found))
        for name, found in hits.items()
    ]


def split_in_folds(labels: Tensor, groups: Sequence[str] | None = None) -> Folds:
    """Split videos at random into at most five parts, each tested with the others for training.

    Args:
        labels: Labels, (V,); each part has its share of each class.
        groups: Group of each video; a group is never divided.

    Raises:
        ValueError: There are fewer than two groups.
    """
    apart = None if groups is None else np.unique(groups, return_inverse=True)[1]
    largest = int(labels.unique(return_counts=True)[1].max())
    number = min(FOLDS, largest, FOLDS if apart is None else apart.max() + 1)
    kind = StratifiedKFold if apart is None else StratifiedGroupKFold  # which is slow
    found = kind(number, shuffle=True, random_state=0).split(labels, labels, apart)
    return [(torch.from_numpy(train), torch.from_numpy(test)) for train, test in found]


def verdict(before: Sequence[Measure], after: Sequence[Measure]) -> str:
    """Say whether a training has made an encoder better.

    It has if the first accuracy is higher on almost all random halves of the test videos, and the
    second one is not lower. The results on such halves vary about as much as those on other samples
    of videos of the same size as all. RankMe does not count, because it does not follow accuracy
    (docs/own_videos_measured.md).

    Args:
        before: Results before the training.
        after: Results after it, for the same videos.

    Returns:
        The verdict and the most important numbers.
    """
    pairs = [(x, y) for x, y in zip(before, after, strict=True) if y.chance is not None]
    if not pairs:
        return f'{UNCLEAR}. {WITHOUT_LABELS}'
    (old, new), (old_knn, new_knn) = pairs[0], pairs[min(1, len(pairs) - 1)]
    rng, number = np.random.default_rng(0), len(new.hits)
    gain = new.hits - old.hits
    gains = [rng.permutation(gain)[: (number + 1) // 2].sum() for _ in range(HALVES)]
    found, other = UNCLEAR, new_knn.value - old_knn.value
    if np.greater(gains, 0).mean() >= SURE and other >= 0:
        found = 'Better'
    elif np.less(gains, 0).mean() >= SURE and other <= 0:
        found = 'Worse'
    text = (
        f'{found}. {number} test videos: {new.value:.1f} % right, {old.value:.1f} % before the '
        f'training, {new.chance:.1f} % by chance.'
    )
    if found == UNCLEAR and old.value >= EASY:
        text += ' They are too easy for a comparison; cvrl probe OUT --groups PATTERN may help.'
    return text


def caution(measures: Sequence[Measure]) -> str:
    """Say what videos that are split at random may share, and whether the neighbours show it."""
    below = any(x.value < x.chance for x in measures if x.chance is not None and 'NN' in x.title)
    return f'{SHARED} {BELOW_CHANCE}' if below else SHARED


def _notes(
    cfg: Config,
    folder: Path,
    names: list[str],
    unseen: list[int],
    labels: list[int],
    failed: dict[str, str],
    accuracy: float,
    measures: Sequence[Measure],
) -> list[str]:
    """Return the paragraphs of the report, from a template."""
    held = f'{len(unseen)} of them held out'
    if not unseen:
        held = f'none held out (fewer than {MIN_TO_HOLD_OUT}): measured on the training videos'
    text = Template(TEMPLATE.read_text(encoding='utf-8')).substitute(
        videos=len(names),
        held=held,
        steps=counted(cfg.train_cfg.max_iters, 'step'),
        batch=cfg.train_dataloader.batch_size,
        started=printable(read_command(folder)['options']['init'] or 'random weights'),
        clips=NUM_CLIPS,
        accuracy=f'{100 * accuracy:.0f}',
        chance=f'{100 / cfg.train_dataloader.batch_size:.2g}',
        labels=WITH_LABELS.format(
            tested='the held-out videos'
            if any(labels[i] >= 0 for i in unseen)
            else 'each fifth of the videos',
            caution=caution(measures),
        )
        if labels
        else '',
        failed=describe_failed(failed, len(names) + len(failed)),
    )
    return [part.strip().replace('\n', ' ') for part in text.split('\n\n') if part.strip()]


def _report(headline: str, notes: list[str], table: list[list[str]]) -> str:
    head, *rows = [f'| {" | ".join(row)} |\n' for row in table]
    rule = '|---' + '|---:' * (len(table[0]) - 1) + '|\n'
    return '\n\n'.join(['# Report', headline, ''.join([head, rule, *rows]), *notes]) + '\n'
