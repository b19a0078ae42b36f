"""Asynchronous copies of batches to the device."""

from collections import deque
from collections.abc import Sequence

import torch
from mmengine.model import stack_batch
from torch import Tensor


class BatchTransfer:
    """Copy batches to a device without waiting for the copy to finish.

    Copies from page-locked memory are asynchronous. A reference to the batch on the host is kept
    until its copy has finished, so that no worker of the data loader reuses its memory earlier.
    """

    def __init__(self) -> None:
        self._pending: deque[tuple[torch.cuda.Event, Tensor]] = deque()

    def __call__(self, inputs: Tensor | Sequence[Tensor], device: torch.device) -> Tensor:
        """Copy a batch.

        Args:
            inputs: A stacked batch, (N, …), or a sequence of N tensors.
            device: The target device.

        Returns:
            The batch on the device, (N, …). Tensors of different shapes are padded by
            mmengine's ``stack_batch``.
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
