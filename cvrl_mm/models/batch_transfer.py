"""Asynchronous copies of batches to the device."""

from collections import deque
from collections.abc import Sequence

import torch
from mmengine.model import stack_batch
from torch import Tensor


class BatchTransfer:
    """Copy batches to a device without waiting for the copy.

    A copy from page-locked memory is asynchronous. The batch on the host is referred to until
    its copy has ended, so that a worker of the data loader does not write into it before.
    """

    def __init__(self) -> None:
        self._pending: deque[tuple[torch.cuda.Event, Tensor]] = deque()

    def __call__(self, inputs: Tensor | Sequence[Tensor], device: torch.device) -> Tensor:
        """Copy a batch.

        Args:
            inputs: (N, …), or N tensors.
            device: Where to.

        Returns:
            (N, …) on the device; tensors of different shapes are padded as mmengine does.
        """
        if not isinstance(inputs, Tensor):
            return stack_batch([x.to(device, non_blocking=True) for x in inputs])
        copy = inputs.to(device, non_blocking=True)
        if copy.is_cuda and not inputs.is_cuda:
            event = torch.cuda.Event()
            event.record()
            self._pending.append((event, inputs))
            while self._pending and self._pending[0][0].query():
                self._pending.popleft()
        return copy
