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

    The arguments and the normalised values are those of MMAction2's ``ActionDataPreprocessor``,
    with four differences. A batch may be one tensor, as ``stack_collate`` returns it. The copy is
    asynchronous if the batch is in page-locked memory. The data samples stay on the host. Under
    autocast, the result has autocast's dtype, to which the first convolution would otherwise
    cast it.

    Args:
        kwargs: Arguments of ``ActionDataPreprocessor``: ``mean``, ``std``, ``format_shape``, …
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
            inputs: A batch on the device, (N, …), or a list of N tensors.
            data_samples: N samples; ``blending`` may replace them.
            training: Whether to apply ``blending``.

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
    """Return the dtype of convolutions: autocast's, or float32 without autocast."""
    if hasattr(torch, 'get_autocast_dtype'):  # torch >= 2.4
        enabled, dtype = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype
        return dtype(device.type) if enabled else torch.float32
    if device.type == 'cpu':
        enabled, old_dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype
    else:
        enabled, old_dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype
    return old_dtype() if enabled else torch.float32
