"""Evaluation of trained encoders, one module per protocol.

In: weights and videos. Out: features, accuracies and nearest neighbours. Start with ``encoder.py``,
which defines the encoder that ``cvrl_mm.load_encoder`` returns. The protocols are
``cached_linear_probe.py``, ``retrieval.py`` (with k-NN) and ``three_splits.py``. ``extraction.py``
writes the features of any videos to a file.
"""

from .features import build_recognizer, extract_features
from .nearest_neighbours import knn_classify, nearest_neighbours

__all__ = [
    'build_recognizer',
    'extract_features',
    'knn_classify',
    'nearest_neighbours',
]
