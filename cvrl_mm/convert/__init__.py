"""Weights from elsewhere, and weights for elsewhere."""

from .files import load_weights, save_weights
from .tf_checkpoint import convert_tf_checkpoint

__all__ = ['convert_tf_checkpoint', 'load_weights', 'save_weights']
