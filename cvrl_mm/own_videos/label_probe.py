"""Evaluate the features of a training with classifiers (``cvrl probe OUT``)."""

from pathlib import Path

import torch

from ..datasets.video_list import read_video_list
from .inspection import MIN_CLASS_VIDEOS
from .measures import Measure, classify
from .trained import Trained


def probe_labels(
    out: str | Path, labels: str | Path | None = None
) -> tuple[dict[str, list[Measure]], str]:
    """Measure the accuracy of classifiers on the features of a training.

    Args:
        out: Output folder of the training.
        labels: A list with lines ``name label``; the names are those of ``features.npz``, and
            videos without a label are left out. By default the videos' folders are the classes.

    Returns:
        k-NN and linear accuracy over random splits, by ``'before training'`` (if these features
        are stored) and ``'after training'``; and a text with the number of videos and classes.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or there is no list.
        ValueError: A file is damaged, there are no classes, or a class has too few videos.
    """
    trained = Trained.read(out)
    label_of = trained.labels if labels is None else dict(read_video_list(str(labels)))
    if labels is None and not label_of:
        raise ValueError(
            f'The videos of {out} do not lie in two or more folders of at least '
            f'{MIN_CLASS_VIDEOS} videos each; give a list with lines "name label" (--labels).'
        )
    places = [i for i, name in enumerate(trained.names) if label_of.get(name, -1) >= 0]
    if not places:
        raise ValueError(
            f'{labels} names none of the {len(trained.names)} videos with a label; the names are '
            f'those of {trained.folder / "features.npz"}, such as {trained.names[0]}.'
        )
    targets = torch.tensor([label_of[trained.names[i]] for i in places])
    # Labels may be any numbers; the classifiers need 0 to C - 1
    values, targets, counts = targets.unique(return_inverse=True, return_counts=True)
    if len(values) < 2 or int(counts.min()) < MIN_CLASS_VIDEOS:
        found = ', '.join(
            f'{v}: {c}' for v, c in zip(values.tolist(), counts.tolist(), strict=True)
        )
        raise ValueError(
            f'A probe needs two or more classes of at least {MIN_CLASS_VIDEOS} videos each; '
            f'videos per class: {found}.'
        )
    encoders = {'before training': trained.read_before(), 'after training': trained.feats}
    results = {
        when: classify(feats[places], targets)
        for when, feats in encoders.items()
        if feats is not None
    }
    return results, f'{len(places)} videos of {len(values)} classes'
