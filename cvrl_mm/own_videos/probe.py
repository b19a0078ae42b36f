"""Evaluate the features of a training with classifiers (``cvrl probe OUT``)."""

from pathlib import Path

import torch

from ..datasets.lists import read_video_list
from ..io import printable
from .folder import FEATURES, Trained
from .inspect import MIN_CLASS_VIDEOS
from .report import AFTER, BEFORE, SPLITS, Measure, classify


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
    notes: list[str] = []
    if labels is None:
        first = {i: trained.lists.labels.get(name, -1) for i, name in enumerate(trained.names)}
        first = {i: label for i, label in first.items() if label >= 0}
        if not first:
            raise ValueError(
                f'The videos of {trained.folder} do not lie in two or more folders of at least '
                f'{MIN_CLASS_VIDEOS} videos each; give a list with lines "name label" (--labels).'
            )
    else:
        first = _read_labels(labels, trained, notes)
    second = {} if test is None else _read_labels(test, trained, notes)
    videos = first | second
    if missing := len(trained.names) - len(videos):
        notes.append(f'{missing} of the {len(trained.names)} videos have no label: left out')
    places = list(videos)
    # Labels may be any numbers; the classifiers need 0 to C - 1
    values, targets, counts = torch.tensor(list(videos.values())).unique(
        return_inverse=True, return_counts=True
    )
    if test is None:
        if len(values) < 2 or min(counts) < MIN_CLASS_VIDEOS:
            found = dict(zip(values.tolist(), counts.tolist(), strict=True))
            raise ValueError(
                f'A probe needs two or more classes of at least {MIN_CLASS_VIDEOS} videos each; '
                f'videos per class: {found}.'
            )
        splits = None
        notes.append(
            f'{len(videos)} videos of {len(values)} classes; mean ± standard deviation over '
            f'{SPLITS} random splits of 70 % and 30 %'
        )
    else:
        if both := [trained.names[i] for i in second if i in first]:
            raise ValueError(
                f'{len(both)} of the videos in {test} are also in {labels}, such as {both[0]}; '
                'test videos must not be used for fitting.'
            )
        lacking = {*second.values()} - {*first.values()}
        if lacking or len({*first.values()}) < 2:
            raise ValueError(
                f'{labels} must have videos of two or more classes, and of all those of {test}; '
                f'it has {sorted({*first.values()})}.'
            )
        splits = [(torch.arange(len(first)), torch.arange(len(first), len(videos)))]
        notes.append(
            f'fitted to {len(first)} videos of {len(values)} classes, tested on '
            f'{len(second)} videos'
        )
    encoders = {BEFORE: trained.read_before(), AFTER: trained.feats}
    results = {
        when: classify(feats[places], targets, splits=splits)
        for when, feats in encoders.items()
        if feats is not None
    }
    return results, notes


def _read_labels(path: str | Path, trained: Trained, notes: list[str]) -> dict[int, int]:
    """Read the labels of a list by index of the video; add a note on other names."""
    places = {name: i for i, name in enumerate(trained.names)}
    found: dict[int, int] = {}
    others = []
    for name, label in read_video_list(str(path)):
        if name not in places:
            others.append(name)
        elif label >= 0 and found.setdefault(places[name], label) != label:
            both = f'{found[places[name]]} and {label}'
            raise ValueError(f'{path}: {printable(name)} has the labels {both}.')
    if not found:
        raise ValueError(
            f'{path} has no line "name label", with a label from 0 on, for any of the videos '
            f'of {trained.folder / FEATURES}, such as {trained.names[0]}.'
        )
    if others:
        notes.append(
            f'{len(others)} of the names in {path} are not in {FEATURES}: ignored; the first one '
            f'is {printable(others[0])}'
        )
    return found
