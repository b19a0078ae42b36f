"""Evenly spaced indices."""

import numpy as np


def evenly_spaced(length: int, at_most: int) -> list[int]:
    """Choose evenly spaced indices of a sequence, including the first and the last one.

    Args:
        length: Length of the sequence.
        at_most: Number of indices. A shorter sequence is used completely.

    Returns:
        Different indices in increasing order.
    """
    return np.linspace(0, length - 1, min(length, at_most)).round().astype(int).tolist()
