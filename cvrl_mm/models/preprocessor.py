"""Normalise clips on the device."""

from typing import Any

import torch
from mmaction.models.data_preprocessors import ActionDataPreprocessor
from mmaction.registry import MODELS
from mmaction.utils import SampleList
from mmengine.model import stack_batch
from torch import Tensor


@MODELS.register_module()
class ClipDataPreprocessor(ActionDataPreprocessor):
    """Copy a batch to the device once, as uint8, and normalise it there.

    The arguments and the normalised values are as in MMAction2's ``ActionDataPreprocessor``,
    with four differences. A batch may be one tensor, as ``stack_collate`` returns it. The
    data samples stay on the host. Under autocast, the result has autocast's dtype, to which the
    first convolution would otherwise cast it. The memory layout of the clips is kept.

    Args:
        kwargs: Arguments of ``ActionDataPreprocessor``: ``mean``, ``std``, ``format_shape``, …

    Attributes:
        in_chunks: Leave a training batch in uint8; the recognizer calls :meth:`preprocess` for
            one chunk at a time. Set by ``CVRL(chunk_size=…)``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subtracts = any(kwargs.get('mean') or ())
        self.in_chunks = False

    def forward(self, data: Any, training: bool = False) -> Any:
        """Copy a batch to the device and normalise it, or leave this to the recognizer."""
        if not (training and self.in_chunks):
            return super().forward(data, training)
        data = self.cast_data(data)
        return {**data, 'inputs': _stack(data['inputs'])}

    def cast_data(self, data: Any) -> Any:
        """Copy the inputs of a batch to the device.

        The copy ends before this method returns: the batch may lie in memory that the workers of
        the loader use again.
        """
        if not isinstance(data, dict) or 'inputs' not in data:
            return super().cast_data(data)
        return {**data, 'inputs': super().cast_data(data['inputs'])}

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
        batch = _stack(inputs)
        blends = training and self.blending is not None
        if blends or self.to_rgb or not self._enable_normalize or self.format_shape == 'MIX2d3d':
            return super().preprocess(list(batch), data_samples, training)
        device = batch.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        normalised = torch.empty_like(batch, dtype=dtype or torch.float32)
        centred = batch - self.mean if self.subtracts else batch
        return torch.div(centred, self.std, out=normalised), data_samples


def _stack(inputs: Tensor | list[Tensor]) -> Tensor:
    return inputs if isinstance(inputs, Tensor) else stack_batch(list(inputs))
