"""Evaluate the features of a training with classifiers (``cvrl probe OUT``)."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch

from ..datasets.lists import read_video_list
from .inspection import MIN_CLASS_VIDEOS
from .measures import SPLITS, Measure, classify
from .trained import FEATURES, Trained, how_to_write_again


def probe_labels(
    out: str | Path, labels: str | Path | None = None, test: str | Path | None = None
) -> tuple[dict[str, list[Measure]], list[str]]:
    """Measure the accuracy of classifiers on the features of a training.

    Args:
        out: Output folder of the training.
        labels: A list with lines ``name label``; the names are those of ``features.npz``, and
            videos without a label are left out. By default the videos' folders are the classes.
        test: A list of the test videos. The classifiers are then fitted to the videos of
            ``labels``; by default the videos are split at random.

    Returns:
        k-NN and linear accuracy, by ``'before training'`` (if these features are stored) and
        ``'after training'``; and lines of text about the videos and classes.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or there is no list.
        ValueError: A file is damaged, a list has no label for any video or two for one, there are
            no classes, a class has too few videos, or the two lists overlap.
    """
    if test is not None and labels is None:
        raise ValueError('--test needs --labels, the list of the videos to fit the classifiers to.')
    trained = Trained.read(out)
    label_of = _labels_by_folder(trained) if labels is None else _read_labels(labels, trained)
    notes = _others(trained, label_of, labels or 'lists/all.txt')
    first = _labelled(trained, label_of)
    second: dict[int, int] = {}
    if test is not None:
        test_label_of = _read_labels(test, trained)
        notes += _others(trained, test_label_of, test)
        second = _labelled(trained, test_label_of)
        _check_split(trained, first, second, f'{labels}', f'{test}')
    videos = first | second
    if len(videos) < len(trained.names):
        missing = len(trained.names) - len(videos)
        notes.append(f'{missing} of the {len(trained.names)} videos have no label: left out')
    places, targets = list(videos), torch.tensor(list(videos.values()))
    # Labels may be any numbers; the classifiers need 0 to C - 1
    values, targets, counts = targets.unique(return_inverse=True, return_counts=True)
    splits = None
    if test is None:
        _check_classes(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        notes.append(
            f'{len(videos)} videos of {len(values)} classes; mean ± standard deviation over '
            f'{SPLITS} random splits of 70 % and 30 %'
        )
    else:
        splits = [(torch.arange(len(first)), torch.arange(len(first), len(videos)))]
        notes.append(
            f'fitted to {len(first)} videos of {len(values)} classes, tested on {len(second)} '
            f'videos of {len(set(second.values()))} classes'
        )
    encoders = {'before training': trained.read_before(), 'after training': trained.feats}
    results = {
        when: classify(feats[places], targets, splits=splits)
        for when, feats in encoders.items()
        if feats is not None
    }
    return results, notes


def _labels_by_folder(trained: Trained) -> dict[str, int]:
    if not trained.labels:
        raise ValueError(
            f'The videos of {trained.folder} do not lie in two or more folders of at least '
            f'{MIN_CLASS_VIDEOS} videos each; give a list with lines "name label" (--labels).'
        )
    if not _labelled(trained, trained.labels):
        raise ValueError(
            f'{trained.folder / "lists/all.txt"} has no label for any video of '
            f'{trained.folder / FEATURES}: one of these files was changed. '
            f'{how_to_write_again(trained.folder)}'
        )
    return trained.labels


def _read_labels(path: str | Path, trained: Trained) -> dict[str, int]:
    """Read a list with lines ``name label``; the label is -1 if there is none."""
    known = set(trained.names)
    lines: dict[str, tuple[int, int]] = {}
    for number, (name, label) in enumerate(read_video_list(str(path)), start=1):
        starts = (name[: found.start()] for found in re.finditer(r'[\s,;]', name))
        if label < 0 and name not in known and any(start in known for start in starts):
            raise ValueError(
                f'{path}, line {number}: {name!r} does not end in a space and a number. Lines are '
                '"name label", and the labels are numbers such as 0, 1 and 2.'
            )
        first, other = lines.setdefault(name, (number, label))
        if other != label:
            raise ValueError(
                f'{path}, lines {first} and {number}: {name} has the labels {other} and {label}; '
                'remove one of the lines.'
            )
    label_of = {name: label for name, (_, label) in lines.items()}
    if not _labelled(trained, label_of):
        raise ValueError(
            f'{path} names none of the {len(known)} videos with a label; the names are those of '
            f'{trained.folder / FEATURES}, such as {trained.names[0]}, and the first one in '
            f'{path} is {next(iter(lines))}.'
        )
    return label_of


def _others(trained: Trained, label_of: Mapping[str, int], source: str | Path) -> list[str]:
    """Describe the names of a list that are not among the videos."""
    known = set(trained.names)
    others = [name for name in label_of if name not in known]
    if not others:
        return []
    return [
        f'{len(others)} of the {len(label_of)} names in {source} are not in {FEATURES}: ignored; '
        f'the first one is {others[0]}'
    ]


def _labelled(trained: Trained, label_of: Mapping[str, int]) -> dict[int, int]:
    """Return the indices of the videos that have a label, and their labels."""
    labels = {i: label_of.get(name, -1) for i, name in enumerate(trained.names)}
    return {i: label for i, label in labels.items() if label >= 0}


def _check_split(
    trained: Trained, first: Mapping[int, int], second: Mapping[int, int], labels: str, test: str
) -> None:
    """Check that two lists do not overlap and that the first one has the classes of the second."""
    both = [trained.names[i] for i in second if i in first]
    if both:
        raise ValueError(
            f'{len(both)} of the videos in {test} are also in {labels}, such as {both[0]}; '
            'test videos must not be used for fitting.'
        )
    if len(set(first.values())) < 2:
        raise ValueError(f'The videos in {labels} are of one class; a probe needs two or more.')
    lacking = sorted({*second.values()} - {*first.values()})
    if lacking:
        raise ValueError(f'No video in {labels} is of the class {lacking[0]} of {test}.')


def _check_classes(counts: Mapping[int, int]) -> None:
    """Check that there are at least two classes and that each has enough videos."""
    if len(counts) < 2 or min(counts.values()) < MIN_CLASS_VIDEOS:
        found = ', '.join(f'{value}: {count}' for value, count in counts.items())
        raise ValueError(
            f'A probe needs two or more classes of at least {MIN_CLASS_VIDEOS} videos each; '
            f'videos per class: {found}.'
        )
