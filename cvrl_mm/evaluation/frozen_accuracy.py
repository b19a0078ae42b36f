"""How well classes can be read off a frozen backbone."""

from collections.abc import Iterable

from mmaction.models import BaseRecognizer

from .features import extract_features
from .linear_probe import linear_probe
from .nearest_neighbours import knn_classify


def frozen_accuracy(
    model: BaseRecognizer,
    train_batches: Iterable[dict],
    test_batches: Iterable[dict],
    k: int = 20,
) -> dict[str, float]:
    """Classify test videos by the features of a backbone in evaluation mode.

    An untrained network has batch-norm statistics of no data. They stay: on generated videos
    those of the training videos in their place made it worse, not better.

    Args:
        model: A recognizer.
        train_batches: Batches of the training videos, as a data loader gives them.
        test_batches: Batches of the test videos.
        k: Neighbours that vote.

    Returns:
        Top-1 accuracy, 0 to 1, of ``nearest_neighbours`` and of a ``linear`` probe.
    """
    train_feats, train_labels = extract_features(model, train_batches)
    test_feats, test_labels = extract_features(model, test_batches)
    predicted = knn_classify(test_feats, train_feats, train_labels, k)
    return dict(
        nearest_neighbours=(predicted == test_labels).double().mean().item(),
        linear=linear_probe(train_feats, train_labels, test_feats, test_labels),
    )
