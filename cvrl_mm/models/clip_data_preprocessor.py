"""The data preprocessor for batches that the data loader has stacked."""

from typing import Any

import torch
from mmaction.models.data_preprocessors import ActionDataPreprocessor
from mmaction.registry import MODELS
from mmaction.utils import SampleList
from mmengine.model import stack_batch
from torch import Tensor

from .batch_transfer import BatchTransfer


@MODELS.register_module()
class ClipDataPreprocessor(ActionDataPreprocessor):
    """Copy a batch to the device once, as uint8, and normalise it there.

    The arguments and the normalised values are those of MMAction2's ``ActionDataPreprocessor``.
    The differences: a batch may be one tensor, as ``stack_collate`` returns it; the copy is
    asynchronous if the batch lies in page-locked memory; the data samples stay on the host; under
    autocast the result has autocast's type, which the first convolution would otherwise cast
    it to.

    Args:
        kwargs: What ``ActionDataPreprocessor`` takes: ``mean``, ``std``, ``format_shape``, …
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subtracts = any(kwargs.get('mean') or ())
        self._transfer = BatchTransfer()

    def cast_data(self, data: Any) -> Any:
        """Copy the inputs of a batch to the device."""
        if isinstance(data, dict) and isinstance(data.get('inputs'), Tensor | list):
            return {**data, 'inputs': self._transfer(data['inputs'], self.device)}
        if isinstance(data, list | tuple):
            return [self.cast_data(part) for part in data]
        return super().cast_data(data)

    def preprocess(
        self, inputs: Tensor | list[Tensor], data_samples: SampleList, training: bool = False
    ) -> tuple[Tensor, SampleList]:
        """Normalise a batch.

        Args:
            inputs: (N, …) on the device, or N tensors.
            data_samples: N samples; ``blending`` may replace them.
            training: Whether to blend.

        Returns:
            The normalised batch, (N, …), and the samples.
        """
        batch: Tensor = inputs if isinstance(inputs, Tensor) else stack_batch(list(inputs))
        blends = training and self.blending is not None
        if blends or self.to_rgb or not self._enable_normalize or self.format_shape == 'MIX2d3d':
            return super().preprocess(list(batch), data_samples, training)
        normalised = torch.empty_like(batch, dtype=_compute_dtype(batch.device))
        centred = batch - self.mean if self.subtracts else batch
        return torch.div(centred, self.std, out=normalised), data_samples


def _compute_dtype(device: torch.device) -> torch.dtype:
    """Return the type in which autocast runs convolutions, float32 without autocast."""
    if hasattr(torch, 'get_autocast_dtype'):  # torch >= 2.4
        enabled, dtype = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype
        return dtype(device.type) if enabled else torch.float32
    if device.type == 'cpu':
        enabled, old_dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype
    else:
        enabled, old_dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype
    return old_dtype() if enabled else torch.float32
