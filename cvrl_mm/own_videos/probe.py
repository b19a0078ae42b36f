"""Evaluate the features of a training with classifiers (``cvrl probe OUT``)."""

import re
from collections import Counter
from collections.abc import Sequence
from os.path import abspath, realpath
from pathlib import Path

import torch
from torch import Tensor

from ..cli import print_warnings_only
from ..datasets.lists import read_labels
from .folder import AFTER, AGAIN, BEFORE, Trained, encode_videos, read_encoders
from .inspect import MIN_CLASS_VIDEOS, find_copies
from .report import Measure, caution, classify, split_in_folds, verdict

TOLERANCE = 0.05  # of features, relative to their length; devices and libraries round differently


def probe_labels(
    out: str | Path,
    labels: str | Path | None = None,
    test: str | Path | None = None,
    groups: str | None = None,
) -> tuple[dict[str, list[Measure]], list[str]]:
    """Measure the accuracy of classifiers on the features of a training.

    Names in the lists are relative to the folder of the training's videos or to that of the list.
    Videos that the training has not used are encoded.

    Args:
        out: Output folder of the training.
        labels: A list with lines ``name label``; a label is a number or a word. By default the
            videos' folders are the classes.
        test: A list of the test videos. The classifiers are then fitted to the videos of
            ``labels``; by default the videos are split at random.
        groups: A regular expression with one group, which is the person or the recording in the
            name of a video. Training and test videos then never have the same.

    Returns:
        Linear and k-NN accuracy, by ``'before training'`` and ``'after training'``; and lines of
        text about the videos and the result.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or there is no list.
        ValueError: A file is damaged, a list has no label for any video or two for one, there are
            no classes, a class has too few videos or groups, the two lists overlap, or ``groups``
            is no such expression.
    """
    if test is not None and (labels is None or groups is not None):
        raise ValueError('--test needs --labels, the videos to fit to, and excludes --groups.')
    trained = Trained.read(out)
    notes: list[str] = []
    files = dict(trained.name_of_file)  # the same file has the same name in both lists
    written: dict[str, str] = {}
    if labels is None:
        found = [(name, trained.class_of(i)) for i, name in enumerate(trained.names)]
        first = {name: label for name, label in found if label is not None}
        if not first:
            raise ValueError(
                f'The videos of {trained.folder} do not lie in two or more folders of at least '
                f'{MIN_CLASS_VIDEOS} videos each; give a list with lines "name label" (--labels).'
            )
    else:
        first = read_classes(labels, trained, files, written)
    second = {} if test is None else read_classes(test, trained, files, written)
    if both := [name for name in second if name in first]:
        raise ValueError(
            f'{len(both)} of the videos in {test} are also in {labels}, such as {both[0]}; '
            'test videos must not be used for fitting.'
        )
    label_of = first | second
    copies = find_copies(
        trained.lists.root, [x for x in label_of if (trained.lists.root / x).exists()]
    )
    if copies:
        copy, original = next(iter(copies.items()))
        notes.append(f'{len(copies)} exact copies are left out, such as {copy} of {original}')
    feats, names = _features(trained, [x for x in label_of if x not in copies], notes)
    counts = Counter(label_of[name] for name in names if name in first)
    if len(counts) < 2 or (test is None and min(counts.values()) < MIN_CLASS_VIDEOS):
        raise ValueError(
            f'A probe needs two or more classes of at least {MIN_CLASS_VIDEOS} videos each; '
            f'videos per class: {dict(counts)}.'
        )
    if lacking := {label_of[name] for name in names} - {*counts}:
        raise ValueError(
            f'{labels} has no video of the class {min(lacking)}, which {test} has; it has '
            f'{sorted(counts)}.'
        )
    values = sorted(counts)
    targets = torch.tensor([values.index(label_of[name]) for name in names])
    if test is None:
        apart = None
        if groups is not None:
            apart = _groups(groups, [written.get(name, name) for name in names])
        folds = split_in_folds(targets, apart)
        for train, part in folds:
            if alone := {*targets[part].tolist()} - {*targets[train].tolist()}:
                raise ValueError(
                    f'--groups {groups!r}: all videos of the class {values[min(alone)]} are in one '
                    'part, so that there is none to fit to; a class needs several groups.'
                )
        notes.append(
            f'{len(names)} videos of {len(values)} classes in {len(folds)} parts; each is tested '
            'with classifiers that are fitted to the others'
        )
    else:
        is_test = torch.tensor([name in second for name in names])
        folds = [(torch.nonzero(~is_test)[:, 0], torch.nonzero(is_test)[:, 0])]
        notes.append(
            f'fitted to {int((~is_test).sum())} videos of {len(values)} classes, tested on '
            f'{int(is_test.sum())} videos'
        )
    results = {when: classify(x, targets, folds) for when, x in feats.items()}
    if test is None and groups is None:
        notes.append(caution(results[AFTER]))
    return results, [*notes, verdict(*results.values())]


def read_classes(
    path: str | Path, trained: Trained, files: dict[str, str], written: dict[str, str]
) -> dict[str, str]:
    """Read the labels of a list by name; lines without one and negative labels are left out.

    Names are relative to the folder of the list or, where there is no such file, to that of the
    training. A video of the training has its name there.

    Args:
        path: The list.
        trained: The training.
        files: Names by the resolved path of the file; those of the list are added.
        written: By name, how the list writes it; added.
    """
    found: dict[str, str] = {}
    used = set(trained.names)
    for text, label in read_labels(path):
        if not label:
            continue
        name, beside = text, Path(path).parent / text
        if beside.is_file():  # another video may have the same name in the training
            name = files.setdefault(realpath(beside), abspath(beside))
        elif name not in used:
            name = files.setdefault(realpath(trained.lists.root / name), name)
        written[name] = text
        if found.setdefault(name, label) != label:
            raise ValueError(f'{path}: {name} has the labels {found[name]} and {label}.')
    if not found:
        raise ValueError(f'{path} has no line "name label", such as "{trained.names[0]} 0".')
    return found


def _features(
    trained: Trained, names: Sequence[str], notes: list[str]
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the features of videos, which are encoded if the training has not used them.

    Returns:
        Features by encoder, (N, C), and the names of the N videos.
    """
    places = {name: i for i, name in enumerate(trained.names)}
    known = [name for name in names if name in places]
    indices = [places[name] for name in known]
    feats = {BEFORE: trained.untrained[indices], AFTER: trained.feats[indices]}
    files = {name: trained.lists.root / name for name in names if name not in places}
    paths = {name: str(file) for name, file in files.items() if file.exists()}
    lost = {name: 'there is no such video' for name in files if name not in paths}
    if paths:
        print_warnings_only()
        encoders = read_encoders(trained.folder)
        same = next((i for name, i in places.items() if name not in trained.changed), None)
        if same is not None:
            _compare(trained, same, encode_videos(encoders, [trained.path(same)])[0])
        encoded, failed = encode_videos(encoders, list(paths.values()))
        feats = {when: torch.cat([feats[when], encoded[when]]) for when in feats}
        lost |= {name: failed[path] for name, path in paths.items() if path in failed}
        known += [name for name, path in paths.items() if path not in failed]
        notes.append(f'{len(paths)} videos are not of the training: encoded')
    if lost:
        name, reason = next(iter(lost.items()))
        notes.append(f'{len(lost)} videos are left out, such as {name}: {reason}')
    if not known:
        raise ValueError(f'{notes[-1]}; the names are those of features.npz: {trained.names[0]}.')
    return feats, known


def _compare(trained: Trained, index: int, feats: dict[str, Tensor]) -> None:
    """Refuse encoders whose features of a video differ from those that are stored."""
    for when, stored in {BEFORE: trained.untrained, AFTER: trained.feats}.items():
        if (feats[when][0] - stored[index]).norm() > TOLERANCE * stored[index].norm():
            raise ValueError(
                f'The encoder {when} gives other features of {trained.path(index)} than those in '
                'features.npz. The video has changed, or another version of torch draws other '
                f'random weights. {AGAIN.format(trained.folder)}'
            )


def _groups(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the group of each video."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f'--groups {pattern!r} is no regular expression: {error}.') from error
    if expression.groups != 1:
        raise ValueError(f'--groups needs one group, such as "person([0-9]+)", got {pattern!r}.')
    found = [match and match[1] for match in map(expression.search, names)]
    if missing := [name for name, group in zip(names, found, strict=True) if group is None]:
        raise ValueError(
            f'--groups {pattern!r} is not found in {len(missing)} names, such as {missing[0]}.'
        )
    groups = [group for group in found if group is not None]
    if len(set(groups)) < 2:
        raise ValueError(f'--groups {pattern!r} finds only one group, {groups[0]!r}.')
    return groups
