"""Evaluation of frozen features."""

from .features import build_recognizer, extract_features
from .nearest_neighbours import knn_classify, nearest_neighbours, recall_at_k

__all__ = [
    'build_recognizer',
    'extract_features',
    'knn_classify',
    'nearest_neighbours',
    'recall_at_k',
]
