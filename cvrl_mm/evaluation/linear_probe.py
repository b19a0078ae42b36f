"""A linear classifier on frozen features."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor


def linear_probe(
    train_feats: Tensor, train_labels: Tensor, test_feats: Tensor, test_labels: Tensor
) -> float:
    """Fit a logistic regression on standardised features and score it on other features.

    L-BFGS with scikit-learn's default l2 penalty fits the classifier to the optimum, so that no
    schedule needs to be tuned. This is suitable for small data sets. The paper's protocol, SGD on
    augmented clips, is implemented by the configs of linear evaluation.

    Args:
        train_feats: Features of the training videos, (V, C).
        train_labels: Labels of the training videos, (V,).
        test_feats: Features of the test videos, (W, C).
        test_labels: Labels of the test videos, (W,).

    Returns:
        Top-1 accuracy on the test videos, from 0 to 1.

    Raises:
        ValueError: Features and labels do not match in number or size.
    """
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    probe.fit(train_feats.numpy(), train_labels.numpy())
    return float(probe.score(test_feats.numpy(), test_labels.numpy()))
