"""Accuracy of simple classifiers on a frozen backbone."""

from collections.abc import Iterable

from mmaction.models import BaseRecognizer

from .features import extract_features
from .linear_probe import linear_probe
from .neighbour_report import neighbour_report


def frozen_accuracy(
    model: BaseRecognizer, train_batches: Iterable[dict], test_batches: Iterable[dict]
) -> dict[str, float]:
    """Classify test videos by the features of a backbone in evaluation mode.

    An untrained network has batch-norm statistics of no data. They stay: on generated videos
    those of the training videos in their place made it worse, not better.

    Args:
        model: A recognizer.
        train_batches: Batches of the training videos, as a data loader gives them.
        test_batches: Batches of the test videos.

    Returns:
        Top-1 accuracy, 0 to 1, of a ``linear`` probe, and what :func:`neighbour_report` has.
    """
    train = extract_features(model, train_batches)
    test = extract_features(model, test_batches)
    return dict(neighbour_report(*test, *train), linear=linear_probe(*train, *test))
