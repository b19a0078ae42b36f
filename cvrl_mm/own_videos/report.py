"""The results of a training: what is measured and written, and probed with labels."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os.path import exists, realpath
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from rich.console import Console
from torch import Tensor

from ..datasets.lists import read_video_list
from ..datasets.sampling import evenly_spaced
from ..encoder.encoder import NUM_CLIPS
from ..evaluation.features import Features, describe_lost
from ..evaluation.labelled import (
    Folds,
    find_copies,
    groups_of,
    lost_classes,
    read_split,
    split,
    split_in_folds,
)
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
    Trained,
    encode_videos,
    name_folder,
    read_encoders,
    video_root,
    write_encoders,
    write_report,
)
from .groups import likely_groups, same_group
from .page import write_feature_page
from .plan import MIN_TO_HOLD_OUT, least_steps, too_short

HALVES, SURE = 200, 0.975  # random halves of the videos; share for a clear change
MAX_RANKED = 1000  # videos, for time
EASY = (
    'The videos were told apart before this training, so that this test says little: a harder one '
    'is needed, such as other persons or days (--groups, or your own --labels and --test).'
)
FIND_OTHER = 'clips that find the other clip of their video (%)'
SHARED = (
    'Videos that are split at random may share persons or recordings, which makes all numbers '
    'higher or lower; cvrl probe {} --groups {} keeps these apart.'
)
BETTER, WORSE, UNCLEAR = 'Better', 'Worse', 'Not clear yet'
APART, AT_RANDOM = ', groups apart', ', drawn at random'  # in titles
EASY_SHARE = 0.8  # of the way from chance to 100 %
ALIKE_SHARE = 0.8
SHOTS, EPISODES = 5, 200


class Row(NamedTuple):
    """A row of the table: values in percent, unless the title has another unit; None if unknown."""

    title: str
    before: float | None
    after: float
    chance: float | None


def write_results(folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
    """Write all results of a training to its output folder.

    Args:
        folder: Output folder; its subfolder ``training`` contains the checkpoints.
        cfg: Config of the training.
        checkpoint: The last checkpoint.
        console: Console for the progress bars.

    Raises:
        FileNotFoundError: The folder of the videos does not exist.
        ValueError: No video can be read, or features are not finite.
    """
    root = video_root(folder)
    names = [name for name, _ in read_video_list(str(folder / 'lists/all.txt'))]
    (folder / FEATURES).unlink(missing_ok=True)  # never another encoder's
    write_encoders(folder, cfg, checkpoint)
    paths, workers = [str(root / name) for name in names], cfg.train_dataloader.num_workers
    with progress('Encoding all videos', console) as on_progress:
        feats, found = encode_videos(read_encoders(folder), paths, workers, on_progress)
    lost = describe_lost({names[i]: why for i, why in found.errors.items()})
    with replacing(folder / FEATURES) as part:
        after, before = feats[AFTER].numpy(), feats[BEFORE].numpy()
        np.savez(part, names=np.array(names)[found.indices], feats=after, feats_before=before)
    trained = Trained.read(folder)
    curves = read_curves(cfg.work_dir)
    plot_curves({'training': curves}, folder / 'curves.png')
    console.print('Measuring and drawing …')
    given = read_json(folder / COMMAND).get('groups')
    groups = name_groups(trained, given)
    folds = divide(trained.labels, trained.held_out, groups and groups[1], given is not None)
    measures = {when: measure(x, trained.labels, folds) for when, x in feats.items()}
    ranks = {when: rank_me(x) for when, x in feats.items()}
    rows = [
        Row(new.title, old.value, new.value, new.chance)
        for old, new in zip(*measures.values(), strict=True)
    ]
    others = None
    if shares := [*curves.get('accuracy', {}).values()]:
        level = 100 / cfg.train_dataloader.batch_size
        rows.append(others := Row(FIND_OTHER, None, 100 * shares[-1], level))
    table = [['', *measures, 'chance']]
    for title, *values in rows:
        table.append([title, *('' if x is None else f'{x:.1f}' for x in values)])
    said = headline(trained, cfg, measures, groups, others)
    notes = [_about_training(cfg, trained), _about_ranks(*ranks.values())]
    if trained.labels:
        notes.insert(1, _about_labels(trained, groups, given is not None))
    notes += lost
    write_feature_page(trained, said, notes, table)
    rows.append(Row('RankMe (number of directions)', ranks[BEFORE], ranks[AFTER], None))
    numbers = [dict(zip(('title', *measures, 'chance'), row, strict=True)) for row in rows]
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    write_report(folder, [said, _markdown(table), *notes])
    console.print(name_folder(folder, said), *lost, sep='\n', markup=False)


def name_groups(trained: Trained, given: str | None) -> tuple[str, list[str]] | None:
    """Find the groups of the videos with a class, or of all videos if there are no classes.

    Args:
        trained: The videos.
        given: The pattern of the user, if there is one; otherwise see :func:`.likely_groups`.

    Returns:
        The pattern and the group of each video; None if there are no groups.
    """
    chosen = trained.chosen
    names = [trained.names[i] for i in chosen]
    if given is not None:
        return given, groups_of(given, names)
    labels = [label for label in trained.labels if label >= 0]
    return likely_groups(names, labels, trained.before[chosen], trained.feats[chosen])


def divide(
    labels: Sequence[int],
    held_out: Sequence[int],
    groups: Sequence[str] | None = None,
    held_apart: bool = False,
) -> dict[str, Folds]:
    """Divide the videos with a class for the accuracies of a report.

    Args:
        labels: Class of each video, given by its folder, or -1; empty if there are no classes.
        held_out: Indices of the held-out videos; empty if there are none.
        groups: Group of each video with a class.
        held_apart: Whether the held-out videos are of other groups than the rest.

    Returns:
        Indices of the videos to fit to and to test, by an addition to the titles of the results.
        With groups, the first ones keep these apart. Empty without classes.
    """
    if not labels:
        return {}
    known = torch.nonzero(torch.tensor(labels) >= 0)[:, 0]
    targets = torch.tensor(labels)[known]
    is_test = torch.isin(known, torch.tensor(held_out, dtype=torch.long))
    held: Folds = [(torch.nonzero(~is_test)[:, 0], torch.nonzero(is_test)[:, 0])]
    if not is_test.any() or len(targets[~is_test].unique()) < 2:
        held = []
    if groups is None:
        folds = {'': held or split_in_folds(targets)}
    elif held_apart:
        folds = {APART: held or split_in_folds(targets, groups)}
    else:
        at_random = held or split_in_folds(targets)
        folds = {APART: split_in_folds(targets, groups), AT_RANDOM: at_random}
    return {what: [(known[x], known[y]) for x, y in parts] for what, parts in folds.items()}


@dataclass(frozen=True)
class Measure:
    """An accuracy.

    Attributes:
        title: Title in the report, with the unit.
        value: The accuracy in percent.
        chance: Level of chance in percent.
        hits: 1 for each test video that is classified rightly, else 0, (N,); empty if several
            draws are averaged.
    """

    title: str
    value: float
    chance: float
    hits: np.ndarray = field(default_factory=lambda: np.empty(0))


def measure(feats: Tensor, labels: Sequence[int], folds: Mapping[str, Folds]) -> list[Measure]:
    """Measure an encoder.

    Args:
        feats: Features of all videos, (V, C).
        labels: Class of each video, given by its folder, or -1; empty if there are no classes.
        folds: See :func:`divide`.

    Returns:
        Linear and k-NN accuracy for each division; and the accuracy with 5 labelled videos per
        class for the first one, if there are enough.
    """
    targets, found = torch.tensor(labels), []
    for what, parts in folds.items():
        found += accuracies(feats, targets, parts, what)[:2]
    if folds:
        what, parts = next(iter(folds.items()))
        found += with_few_labels(feats, targets, parts, what)
    return found


def rank_me(feats: Tensor) -> float:
    """Return in how many directions features vary, (V, C); see :func:`effective_rank`."""
    return effective_rank(feats[evenly_spaced(len(feats), MAX_RANKED)], centred=False)


def with_few_labels(feats: Tensor, labels: Tensor, folds: Folds, what: str = '') -> list[Measure]:
    """Measure the accuracy of nearest prototypes of 5 videos of each class; [] if there are fewer.

    See :func:`accuracies` for the arguments.
    """
    videos = Features(feats[:, None], labels, torch.arange(len(labels)))
    ways = len(labels[torch.cat([test for _, test in folds])].unique())
    try:
        found = across_folds('few_shot', videos, folds, ways=ways, episodes=EPISODES)
    except ValueError:
        return []
    scores = [x.double().mean().item() for name, x in found.items() if f' {SHOTS}-shot' in name]
    title = f'{SHOTS} labelled videos per class, accuracy{what} (%)'
    return [Measure(title, 100 * score, 100 / ways) for score in scores]


def accuracies(feats: Tensor, labels: Tensor, folds: Folds, what: str = '') -> list[Measure]:
    """Measure linear and k-NN accuracy; the level of chance is the most frequent class's share.

    Args:
        feats: Features, (V, C).
        labels: Labels, (V,).
        folds: Indices of training and test videos.
        what: Addition to the titles.

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
        Measure(
            f'{name} accuracy{what} (%)', 100 * x.double().mean().item(), level, x.double().numpy()
        )
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
    numbers = {video: places.get(realpath(video.path)) for video in (*train, *tested)}
    # Without labels, what the training could not read is left out here as well
    videos = [x for x, i in numbers.items() if i is not None or (labels and exists(x.path))]
    present, fitted, known = {*videos}, {*train}, [numbers[video] for video in videos]
    if labels:
        notes += describe_lost({x.name: 'no such video' for x in numbers if x not in present})
    if not videos:
        raise ValueError(f'{notes[-1]}. Names are such as {trained.names[0]}.')
    read = [*range(len(videos))]
    if None in known:  # all are encoded anew, since other devices and libraries round differently
        print_warnings_only()
        feats, found = encode_videos(read_encoders(trained.folder), [x.path for x in videos])
        notes += [f'{known.count(None)} videos are not of the training: all are encoded']
        others = {realpath(video.path) for video in videos} - {*places}
        if copies := find_copies(Path(), [*places, *others]).keys() & others:
            notes += [f'{len(copies)} of them are copies of its videos that have other names']
        notes += describe_lost({videos[i].name: why for i, why in found.errors.items()})
        read = found.indices.tolist()
    else:
        feats = {BEFORE: trained.before[known], AFTER: trained.feats[known]}
    num_train = None if test is None else sum(videos[i] in fitted for i in read)
    notes += lost_classes((x.label for x in numbers), (videos[i].label for i in read))
    targets, folds, note = split([videos[i] for i in read], num_train, groups)
    results = {when: accuracies(x, targets, folds) for when, x in feats.items()}
    if test is None and groups is None:
        names = [videos[i].name for i in read]
        likely = likely_groups(names, targets.tolist(), feats[BEFORE], feats[AFTER])
        command = ('OUT', 'PATTERN') if likely is None else map(shlex.quote, (str(out), likely[0]))
        note = f'{note}. {SHARED.format(*command)}'
    return results, [*notes, note, verdict(results[BEFORE], results[AFTER], groups)]


def compare(before: Sequence[Measure], after: Sequence[Measure]) -> str:
    """Decide whether a training has made an encoder better.

    It has if the first accuracy is higher on almost all random halves of the test videos, and the
    second one is not lower. The results on such halves vary about as much as those on other samples
    of videos of the same size as all. RankMe does not count, because it does not follow accuracy
    (docs/own_videos_measured.md).

    Args:
        before: Accuracies before the training.
        after: Accuracies after it, for the same videos.

    Returns:
        ``BETTER``, ``WORSE`` or ``UNCLEAR``.
    """
    if not after:
        return UNCLEAR
    (old, old_other, *_), (new, new_other, *_) = before, after
    rng, gain = np.random.default_rng(0), new.hits - old.hits
    gains = [rng.permutation(gain)[: (len(gain) + 1) // 2].sum() for _ in range(HALVES)]
    if np.greater(gains, 0).mean() >= SURE and new_other.value >= old_other.value:
        return BETTER
    if np.less(gains, 0).mean() >= SURE and new_other.value <= old_other.value:
        return WORSE
    return UNCLEAR


def is_easy(before: Sequence[Measure]) -> bool:
    """Return whether the videos were told apart before the training."""
    return any(x.value > x.chance + EASY_SHARE * (100 - x.chance) for x in before[:1])


def verdict(before: Sequence[Measure], after: Sequence[Measure], groups: str | None = None) -> str:
    """Say whether a training has made an encoder better (:func:`compare`), and by which numbers.

    Args:
        before: Accuracies before the training.
        after: Accuracies after it, for the same videos.
        groups: The pattern by which groups of videos were kept apart.
    """
    found = compare(before, after)
    if not after:
        return f'{found}. Only labels can tell: cvrl probe OUT --labels LIST.'
    old, new = before[0], after[0]
    whose = '' if groups is None else f', each with its group left out, by the pattern {groups}'
    text = (
        f'{found}. {len(new.hits)} test videos{whose}: {new.value:.1f} % right, {old.value:.1f} % '
        f'before the training, {new.chance:.1f} % by chance.'
    )
    return f'{text} {EASY}' if is_easy(before) else text


def headline(
    trained: Trained,
    cfg: Config,
    measures: Mapping[str, Sequence[Measure]],
    groups: tuple[str, list[str]] | None,
    others: Row | None,
) -> str:
    """Return the verdict and what to do next, without paths: the page may be shared."""
    pattern, found = groups or (None, [])
    before, after = measures[BEFORE], measures[AFTER]
    said = [verdict(before, after, pattern)]
    if not trained.labels and others is not None:
        found_other = f'{others.after:.0f} % of the clips find the other clip of their video'
        said.append(f'{found_other} (chance: {others.chance:.1f} %).')
    if is_easy(before):
        return said[0]
    if found and compare(before, after) != BETTER:
        labels = [label for label in trained.labels if label >= 0]
        share, level = same_group(trained.feats[trained.chosen], found, labels)
        if share > ALIKE_SHARE and share > 2 * level:
            left_out = ', without videos that also share their class' if labels else ''
            said.append(
                f'The nearest neighbour of {100 * share:.0f} % of the videos has the same part of '
                f'its name as they have, by the pattern {pattern}{left_out} (chance: '
                f'{100 * level:.0f} %). If that is a camera, a person or a recording, the features '
                'tell these apart more than what happens: start from an encoder that was trained '
                'on more (--init).'
            )
    least = least_steps('init_cfg' in cfg.model.backbone)
    remedy = f'cvrl pretrain --out OUT --steps {least}'
    return ' '.join([*said, *too_short(cfg.train_cfg.max_iters, least, remedy)])


def _about_labels(trained: Trained, groups: tuple[str, list[str]] | None, held_apart: bool) -> str:
    """Return the paragraph of the report on the accuracies."""
    tested = any(trained.labels[i] >= 0 for i in trained.held_out)
    which = 'the held-out videos' if tested else 'each fifth of the videos'
    text = (
        f'Accuracy: classifiers on the features, tested on {which} and fitted to the others. The '
        'folders are used as classes only for this. The row with 5 labelled videos per class shows '
        'how many are right with so few labels: the class whose 5 videos are nearest on average, '
        f'over {EPISODES:,} draws.'
    )
    if groups is None:
        return f'{text} {SHARED.format("OUT", "PATTERN")}'
    pattern, found = groups
    if held_apart:
        return (
            f'{text} Groups apart: the held-out videos are of other groups than the rest, by the '
            f'pattern {pattern}.'
        )
    return (
        f'{text} Groups apart: the names have parts that may be persons or recordings, here '
        f'{len({*found})} groups by the pattern {pattern}, such as {found[0]!r} in '
        f'{trained.names[trained.chosen[0]]}. Each video is tested with classifiers that '
        'are fitted to videos of other groups, also those that the encoder was trained on without '
        'labels. For other parts of the names: cvrl probe OUT --groups PATTERN'
    )


def _about_ranks(before: float, after: float) -> str:
    """Return the paragraph of the report on RankMe."""
    return (
        'RankMe is the number of directions in which the features of all videos vary: '
        f'{before:.1f} before and {after:.1f} after the training. It does not follow accuracy, and '
        'often falls; near 1, the features have collapsed.'
    )


def _about_training(cfg: Config, trained: Trained) -> str:
    """Return the paragraph of the report on the training."""
    held = f'{len(trained.held_out)} of them held out'
    if not trained.held_out:
        held = f'none held out (fewer than {MIN_TO_HOLD_OUT}): measured on the training videos'
    batch, start = cfg.train_dataloader.batch_size, 'random weights'
    if 'init_cfg' in cfg.model.backbone:
        init = read_json(trained.folder / COMMAND)['init']
        start = Path(init).name if init else 'the encoder of this package'  # it may be shared
    return (
        f'{len(trained.names)} videos, {held}; {cfg.train_cfg.max_iters:,} steps of {batch} videos '
        f'per device, started from {printable(start)}, with which the numbers before the training '
        f'were measured. The features of a video are the mean over {NUM_CLIPS} evenly spaced '
        'clips. Clips find the other clip of their video in its batch; this is measured '
        'at the end of the training.'
    )


def _markdown(table: list[list[str]]) -> str:
    head, *rows = [f'| {" | ".join(row)} |' for row in table]
    rule = '|---' + '|---:' * (len(table[0]) - 1) + '|'
    return '\n'.join([head, rule, *rows])
