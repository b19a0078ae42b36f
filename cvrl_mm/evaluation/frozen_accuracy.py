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

    The batch norm statistics of an untrained network are kept as initialised. Replacing them by
    those of the training videos lowered its accuracy on generated videos.

    Args:
        model: A recognizer.
        train_batches: Batches of the training videos.
        test_batches: Batches of the test videos.

    Returns:
        Top-1 accuracy of a ``linear`` probe, from 0 to 1, and the result of
        :func:`neighbour_report`.
    """
    train = extract_features(model, train_batches)
    test = extract_features(model, test_batches)
    return dict(neighbour_report(*test, *train), linear=linear_probe(*train, *test))
