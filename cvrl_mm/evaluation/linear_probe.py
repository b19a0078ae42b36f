"""A linear classifier on frozen features."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor


def linear_probe(
    train_feats: Tensor, train_labels: Tensor, test_feats: Tensor, test_labels: Tensor
) -> float:
    """Fit a logistic regression on standardised features and score it on others.

    It is fitted to the optimum by L-BFGS, with scikit-learn's default l2 penalty, and so has
    no schedule to tune: fit for small sets. The paper's own protocol, SGD on augmented clips,
    is that of the linear-evaluation configs.

    Args:
        train_feats: (V, C).
        train_labels: (V,).
        test_feats: (W, C).
        test_labels: (W,).

    Returns:
        Top-1 accuracy on the test videos, 0 to 1.

    Raises:
        ValueError: features and labels do not fit together.
    """
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    probe.fit(train_feats.numpy(), train_labels.numpy())
    return float(probe.score(test_feats.numpy(), test_labels.numpy()))
