"""The shapes of the objects in generated videos."""

import numpy as np

LONG, THIN = 1.5, 0.33  # half the length and width of a bar, in units of the objects' radius
BARS = {  # centre and half extent of each bar, y and extents in units of the objects' radius
    'horizontal bar': [(0, 0, LONG, THIN)],
    'vertical bar': [(0, 0, THIN, LONG)],
    'plus': [(0, 0, LONG, THIN), (0, 0, THIN, LONG)],
    'cross': [(0, 0, LONG, THIN), (0, 0, THIN, LONG)],  # turned by 45 degrees
    'T': [(0, -0.8, 1.1, THIN), (0, 0, THIN, 1.1)],
    'H': [(-0.8, 0, THIN, 1.1), (0.8, 0, THIN, 1.1), (0, 0, 0.8, THIN)],
    'two bars': [(0, -0.7, 1.1, THIN), (0, 0.7, 1.1, THIN)],
    'two columns': [(-0.7, 0, THIN, 1.1), (0.7, 0, THIN, 1.1)],
}


def coverage(structure: str, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    """Compute the share of each pixel that objects of one shape cover, anti-aliased.

    Args:
        structure: Name of a shape.
        x: Horizontal distance to each object's centre in pixels, (T, N, 1, W).
        y: Vertical distance to each object's centre in pixels, (T, N, H, 1).
        radius: Radius of every object in pixels.

    Returns:
        (T, H, W), 0 to 1.
    """
    return np.clip(0.5 - _distance(structure, x, y, radius), 0, 1)


def _distance(structure: str, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    """Compute the signed distance to the nearest outline, (T, H, W), negative inside."""
    if structure in BARS:
        if structure == 'cross':
            x, y = (x + y) / np.sqrt(2), (x - y) / np.sqrt(2)
        bars = radius * np.array(BARS[structure], dtype=np.float32)
        distances = [
            np.maximum(np.abs(x - cx) - dx, np.abs(y - cy) - dy).min(axis=1)
            for cx, cy, dx, dy in bars
        ]
        return np.minimum.reduce(distances)
    x, y = np.abs(x), np.abs(y)
    if structure == 'disc':
        return np.sqrt((x * x + y * y).min(axis=1)) - 0.9 * radius
    if structure == 'wide oval':
        return _oval(x, y, 1.3 * radius, 0.6 * radius)
    if structure == 'tall oval':
        return _oval(x, y, 0.6 * radius, 1.3 * radius)
    if structure == 'square':
        return np.maximum(x, y).min(axis=1) - 0.8 * radius
    if structure == 'diamond':
        return (x + y).min(axis=1) / np.sqrt(2) - 0.8 * radius
    centre_line = {  # of a hollow shape, whose line is 0.4 radius wide
        'ring': lambda: np.sqrt(x * x + y * y),
        'frame': lambda: np.maximum(x, y),
        'hollow diamond': lambda: (x + y) / np.sqrt(2),
    }[structure]()
    return (np.abs(centre_line - 0.8 * radius) - 0.2 * radius).min(axis=1)


def _oval(x: np.ndarray, y: np.ndarray, half_width: float, half_height: float) -> np.ndarray:
    scaled = np.sqrt(((x / half_width) ** 2 + (y / half_height) ** 2).min(axis=1))
    return (scaled - 1) * min(half_width, half_height)
