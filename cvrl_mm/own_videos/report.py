"""The results of a training: what is measured and written, and probed with labels."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import exists, realpath
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from rich.console import Console
from torch import Tensor

from ..datasets.lists import read_video_list
from ..datasets.sampling import evenly_spaced
from ..evaluation.features import Features, describe_lost
from ..evaluation.labelled import Folds, read_split, split, split_in_folds
from ..evaluation.measures import effective_rank, voters
from ..evaluation.protocols import across_folds, chance
from ..io import read_json, replacing
from ..progress import progress
from ..runtime import print_warnings_only
from ..text import printable
from ..visualization.curves import plot_curves, read_curves
from .folder import (
    AFTER,
    BEFORE,
    COMMAND,
    FEATURES,
    NUM_CLIPS,
    Trained,
    encode_videos,
    read_encoders,
    video_root,
    write_encoders,
    write_report,
)
from .page import write_feature_page
from .plan import MIN_TO_HOLD_OUT, least_steps, too_short

HALVES, SURE = 200, 0.975  # random halves of the videos; share for a clear change
MAX_RANKED = 1000  # videos, for time
WITH_LABELS = (
    'Accuracy: classifiers on the features, tested on {} and fitted to the others. The folders are '
    'used as classes only for this.'
)
RANK_ME = (
    'RankMe is the number of directions in which the features of all videos vary. It needs no '
    'labels, and does not follow accuracy: compare it only between encoders of the same '
    'architecture, to notice a collapse.'
)
SHARED = (
    'Videos that are split at random may share persons or recordings, which makes all numbers '
    'higher or lower; cvrl probe OUT --groups PATTERN keeps these apart.'
)
UNCLEAR = 'Not clear yet'


def write_results(folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
    """Write all results of a training to its output folder.

    Args:
        folder: Output folder; its subfolder ``training`` contains the checkpoints.
        cfg: Config of the training.
        checkpoint: The last checkpoint.
        console: Console for the progress bars.

    Raises:
        FileNotFoundError: The folder of the videos does not exist.
        ValueError: Half of the videos or more cannot be read: a report of the others would look
            like one of a smaller folder. Or features are not finite.
    """
    root = video_root(folder)
    names = [name for name, _ in read_video_list(str(folder / 'lists/all.txt'))]
    (folder / FEATURES).unlink(missing_ok=True)  # never another encoder's
    write_encoders(folder, cfg, checkpoint)
    paths, workers = [str(root / name) for name in names], cfg.train_dataloader.num_workers
    with progress('Encoding all videos', console) as on_progress:
        feats, found = encode_videos(read_encoders(folder), paths, workers, on_progress)
    lost = describe_lost({names[i]: why for i, why in found.errors.items()})
    if 2 * len(found.indices) <= len(paths):
        raise ValueError(f'{lost[0]}. No report was written; give the same command again.')
    with replacing(folder / FEATURES) as part:
        after, before = feats[AFTER].numpy(), feats[BEFORE].numpy()
        np.savez(part, names=np.array(names)[found.indices], feats=after, feats_untrained=before)
    trained = Trained.read(folder)
    curves = read_curves(cfg.work_dir)
    plot_curves({'training': curves}, folder / 'curves.png')
    console.print('Measuring and drawing …')
    unseen, labels = trained.held_out, trained.labels
    measures = {when: measure(x, unseen, labels) for when, x in feats.items()}
    table = [['', *measures, *(['chance'] if labels else [])]]
    for old, new in zip(*measures.values(), strict=True):
        values = (old.value, new.value, *([new.chance] if labels else []))
        table.append([new.title, *('' if x is None else f'{x:.1f}' for x in values)])
    short = too_short(cfg.train_cfg.max_iters, least_steps('init_cfg' in cfg.model.backbone))
    headline = ' '.join([verdict(*measures.values()), *short])
    accuracy = [*curves.get('accuracy', {0: math.nan}).values()][-1]
    notes = [_about_training(cfg, trained, accuracy), RANK_ME, *lost]
    if labels:
        tested = any(labels[i] >= 0 for i in unseen)
        which = 'the held-out videos' if tested else 'each fifth of the videos'
        notes.insert(2, f'{WITH_LABELS.format(which)} {SHARED}')
    write_feature_page(folder / 'index.html', headline, notes, table, trained)
    numbers = {
        when: [dict(title=m.title, value=m.value, chance=m.chance) for m in found]
        for when, found in measures.items()
    }
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    write_report(folder, [headline, _markdown(table), *notes])
    console.print(headline, *lost, sep='\n', markup=False)


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
    found = [Measure('RankMe (number of directions)', effective_rank(chosen, centred=False))]
    if not labels:
        return found
    known = torch.tensor([i for i, label in enumerate(labels) if label >= 0])
    classes = torch.tensor(labels)[known]
    is_test = torch.isin(known, torch.tensor(held_out, dtype=torch.long))
    folds: Folds = [(torch.nonzero(~is_test)[:, 0], torch.nonzero(is_test)[:, 0])]
    if not is_test.any() or len(classes[~is_test].unique()) < 2:
        folds = split_in_folds(classes)
    return [*accuracies(feats[known], classes, folds), *found]


def accuracies(feats: Tensor, labels: Tensor, folds: Folds) -> list[Measure]:
    """Measure linear and k-NN accuracy; the level of chance is the most frequent class's share.

    Args:
        feats: Features, (V, C).
        labels: Labels, (V,).
        folds: Indices of training and test videos.

    Returns:
        Linear accuracy, k-NN accuracy with k of at most 20 and half the smallest class of the
        training videos, and 1-NN accuracy.
    """
    unit = Features(F.normalize(feats, dim=1)[:, None], labels, torch.arange(len(labels)))
    ks = {min(voters(labels[train]) for train, _ in folds), 1}
    hits = dict(linear=across_folds('logistic', unit, folds)['top1'])
    for k in sorted(ks, reverse=True):
        hits[f'{k}-NN'] = across_folds('knn', unit, folds, k=k)['knn_top1']
    level = 100 * chance(labels[torch.cat([test for _, test in folds])])
    return [
        Measure(f'{name} accuracy (%)', 100 * x.double().mean().item(), level, x.double().numpy())
        for name, x in hits.items()
    ]


def probe(
    out: str | Path,
    labels: str | Path | None = None,
    test: str | Path | None = None,
    groups: str | None = None,
) -> tuple[dict[str, list[Measure]], list[str]]:
    """Measure accuracies on the features before and after a training (``cvrl probe OUT``).

    Args:
        out: Output folder of the training.
        labels: A list with lines ``name label`` or a folder of class folders; see
            :func:`read_labelled`. Names in a list are relative to its folder or to the
            folder of the training's videos. By default, the folders of these videos are the
            classes.
        test: Likewise, the test videos. The classifiers are then fitted to the videos of
            ``labels``; by default the videos are split at random.
        groups: See :func:`.labelled.split`.

    Returns:
        Linear and k-NN accuracy, by ``'before training'`` and ``'after training'``; and lines of
        text about the videos and the result.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or there is no list.
        ValueError: A file is damaged, or ``test`` is given without ``labels``; or see
            :func:`read_split` and :func:`.labelled.split`.
    """
    if test is not None and labels is None:
        raise ValueError('--test needs --labels, the videos to fit to.')
    trained = Trained.read(out)
    train, tested, notes = read_split(labels or out, test, trained.root)
    places = {realpath(trained.path(i)): i for i in range(len(trained.names))}
    files = {video: realpath(video.path) for video in (*train, *tested)}
    videos = [x for x, path in files.items() if path in places or (labels and exists(path))]
    present = {*videos}
    if labels:
        notes += describe_lost({x.name: 'no such video' for x in files if x not in present})
    if not videos:
        raise ValueError(f'{notes[-1]}. Names are such as {trained.names[0]}.')
    num_train = None if test is None else len(present & {*train})
    known = [places.get(files[video]) for video in videos]
    if None in known:  # all are encoded anew, since other devices and libraries round differently
        print_warnings_only()
        feats, found = encode_videos(read_encoders(trained.folder), [x.path for x in videos])
        notes += [f'{known.count(None)} videos are not of the training: all are encoded']
        notes += describe_lost({videos[i].name: why for i, why in found.errors.items()})
        read = found.indices.tolist()
    else:
        read = [*range(len(videos))]
        feats = {BEFORE: trained.untrained[known], AFTER: trained.feats[known]}
    num_train = num_train and sum(i < num_train for i in read)
    targets, folds, note = split([videos[i] for i in read], num_train, groups)
    results = {when: accuracies(x, targets, folds) for when, x in feats.items()}
    if test is None and groups is None:
        note = f'{note}. {SHARED}'
    return results, [*notes, note, verdict(results[BEFORE], results[AFTER])]


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
        return f'{UNCLEAR}. Only labels can tell: cvrl probe OUT --labels LIST.'
    (old, new), (old_knn, new_knn) = pairs[0], pairs[min(1, len(pairs) - 1)]
    rng, number = np.random.default_rng(0), len(new.hits)
    gain = new.hits - old.hits
    gains = [rng.permutation(gain)[: (number + 1) // 2].sum() for _ in range(HALVES)]
    found, other = UNCLEAR, new_knn.value - old_knn.value
    if np.greater(gains, 0).mean() >= SURE and other >= 0:
        found = 'Better'
    elif np.less(gains, 0).mean() >= SURE and other <= 0:
        found = 'Worse'
    return (
        f'{found}. {number} test videos: {new.value:.1f} % right, {old.value:.1f} % before the '
        f'training, {new.chance:.1f} % by chance.'
    )


def _about_training(cfg: Config, trained: Trained, accuracy: float) -> str:
    """Return the paragraph of the report on the training."""
    held = f'{len(trained.held_out)} of them held out'
    if not trained.held_out:
        held = f'none held out (fewer than {MIN_TO_HOLD_OUT}): measured on the training videos'
    batch, start = cfg.train_dataloader.batch_size, 'random weights'
    if 'init_cfg' in cfg.model.backbone:
        start = read_json(trained.folder / COMMAND)['init'] or 'the encoder of this package'
    return (
        f'{len(trained.names)} videos, {held}; {cfg.train_cfg.max_iters:,} steps of {batch} videos '
        f'per device, started from {printable(start)}, with which the numbers before the training '
        f'were measured. The features of a video are the mean over {NUM_CLIPS} evenly spaced '
        f'clips. At the end of the training, {100 * accuracy:.0f} % of the clips found the other '
        f'clip of their video in the batch (chance: at most {100 / batch:.2g} %).'
    )


def _markdown(table: list[list[str]]) -> str:
    head, *rows = [f'| {" | ".join(row)} |' for row in table]
    rule = '|---' + '|---:' * (len(table[0]) - 1) + '|'
    return '\n'.join([head, rule, *rows])
