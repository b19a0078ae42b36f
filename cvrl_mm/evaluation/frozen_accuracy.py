"""How well classes can be read off a frozen backbone."""

from collections.abc import Sequence

from mmaction.models import BaseRecognizer

from .features import extract_features, recalibrate_batch_norm
from .linear_probe import linear_probe
from .nearest_neighbours import knn_classify


def frozen_accuracy(
    model: BaseRecognizer,
    train_batches: Sequence[dict],
    test_batches: Sequence[dict],
    k: int = 20,
) -> dict[str, float]:
    """Classify test videos by their features.

    The backbone's batch-norm statistics are first set to those of the training videos, so that
    an untrained network is compared by its weights.

    Args:
        model: A recognizer; its statistics are changed.
        train_batches: Batches of the training videos, as a data loader gives them; gone
            through twice.
        test_batches: Batches of the test videos.
        k: Neighbours that vote.

    Returns:
        Top-1 accuracy, 0 to 1, of ``nearest_neighbours`` and of a ``linear`` probe.
    """
    recalibrate_batch_norm(model, train_batches)
    train_feats, train_labels = extract_features(model, train_batches)
    test_feats, test_labels = extract_features(model, test_batches)
    predicted = knn_classify(test_feats, train_feats, train_labels, k)
    return dict(
        nearest_neighbours=(predicted == test_labels).double().mean().item(),
        linear=linear_probe(train_feats, train_labels, test_feats, test_labels),
    )
