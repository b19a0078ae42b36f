"""The table of operations with their host and device implementations, and their application.

A transform draws :class:`Step` objects. On the host, :func:`apply_on_host` applies those of one
clip. On the device, :func:`apply_on_device` applies those of a whole batch.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from . import device_operations as device
from . import host_operations as host
from . import pillow_operations
from .step import Step, merge_steps


class Operation(NamedTuple):
    """The two implementations of an operation.

    Attributes:
        host: Takes frames (T, H, W, 3), uint8, which it changes, and the values of a step.
        device: Implementation for batches, or None if the operation runs only on the host.
    """

    host: Callable[..., None]
    device: device.DeviceOperation | None


OPERATIONS = {
    'contrast': Operation(host.contrast, device.CONTRAST),
    'hsv': Operation(host.hsv, device.HSV),
    'grayscale': Operation(host.grayscale, device.GRAYSCALE),
    'solarize': Operation(host.solarize, device.SOLARIZE),
    'gaussian_blur': Operation(host.gaussian_blur, device.GAUSSIAN_BLUR),
    'pillow': Operation(pillow_operations.apply, None),
}


def apply_on_host(
    imgs: np.ndarray | Sequence[np.ndarray], steps: Sequence[Step], out: np.ndarray | None = None
) -> np.ndarray:
    """Apply the steps of one clip in order.

    Args:
        imgs: Frames of one size: a list of (H, W, 3) or an array (T, H, W, 3), uint8 RGB.
        steps: The drawn steps.
        out: Array for the result, (T, H, W, 3) uint8; default: a new one.

    Returns:
        The augmented frames, (T, H, W, 3) uint8; the input is not modified.

    Raises:
        ValueError: The frames have a different type or shape.
    """
    kinds = {(img.dtype, img.shape) for img in imgs}
    if len(kinds) != 1 or imgs[0].dtype != np.uint8 or imgs[0].shape[2:] != (3,):
        raise ValueError(
            'Photometric transforms need uint8 RGB frames (H, W, 3) of one size, got '
            f'{sorted(map(str, kinds))}; place them before formatting and normalising.'
        )
    if out is None:
        out = np.empty((len(imgs), *imgs[0].shape), np.uint8)
    np.stack(list(imgs), out=out)
    for step in merge_steps(steps):
        OPERATIONS[step.name].host(out, *step.values)
    return out


def apply_on_device(
    clips: Tensor, steps: Sequence[Sequence[Step]], slots: Sequence[str], num_taps: int = 1
) -> Tensor:
    """Apply the steps of each clip to a batch of clips.

    All clips pass through the same sequence of operations, ``slots``; if a clip has no step for a
    slot, its parameters have no effect. The parameters of the batch form one table, which is
    copied to the device once.

    Args:
        clips: (K, 3, T, H, W), uint8 RGB.
        steps: The steps of each clip, merged by :func:`merge_steps`.
        slots: Names of operations. The names of each clip's steps must be a subsequence of it.
        num_taps: Number of taps of blurs, odd.

    Returns:
        New clips, (K, 3, T, H, W) uint8.

    Raises:
        ValueError: The steps of a clip do not fit into the slots.
    """
    operations = []
    for name in slots:
        operation = OPERATIONS[name].device
        if operation is None:
            raise ValueError(f'{name!r} runs only on the host.')
        operations.append(operation)
    neutral = [np.asarray(op.pack(num_taps, None), np.float32) for op in operations]
    ends = np.cumsum([len(values) for values in neutral]).tolist()
    table = np.tile(np.concatenate([np.empty(0, np.float32), *neutral]), (len(clips), 1))
    for row, own in zip(table, steps, strict=True):
        slot = 0
        for step in own:
            if step.name not in slots[slot:]:
                raise ValueError(f'{step.name!r} does not fit into the slots {slots[slot:]}.')
            slot += list(slots[slot:]).index(step.name)
            values = operations[slot].pack(num_taps, step.values)
            row[ends[slot] - len(values) : ends[slot]] = values
            slot += 1
    return device.run(clips, table, tuple(zip(slots, ends, strict=True)))
