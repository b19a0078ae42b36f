"""The interface between drawing and applying: transforms draw steps, and kernels apply them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """One operation on one clip and its drawn parameters: ``Step('brightness', (0.7,))``.

    Attributes:
        name: Key of ``operations.OPERATIONS`` or of ``IN_HSV``.
        values: Arguments of the operation, without the clip.
    """

    name: str
    values: tuple = ()


# The effect of an operation on hue (added), saturation and value (factors)
IN_HSV: dict[str, Callable[[float], tuple[float, float, float]]] = {
    'hue': lambda turns: (turns, 1.0, 1.0),
    'saturation': lambda factor: (0.0, factor, 1.0),
    'brightness': lambda factor: (0.0, 1.0, factor),
}


def merge_steps(steps: Sequence[Step]) -> list[Step]:
    """Merge adjacent changes of hue, saturation and brightness into one HSV round trip.

    Each of the three operations changes only one of H, S and V. Merging is exact unless the
    brightness clips values in between; such steps are not merged.

    Args:
        steps: The steps of one clip in order.

    Returns:
        Steps whose names are keys of ``operations.OPERATIONS``.
    """
    merged: list[Step] = []
    for step in steps:
        if step.name not in IN_HSV:
            merged.append(step)
            continue
        hue, saturation, gain = IN_HSV[step.name](*step.values)
        if merged and merged[-1].name == 'hsv':
            last_hue, last_saturation, last_gain = merged[-1].values
            if last_gain <= 1 and 1 in (last_saturation, saturation):
                merged.pop()
                hue += last_hue
                saturation *= last_saturation
                gain *= last_gain
        merged.append(Step('hsv', (hue, saturation, gain)))
    return merged
