"""A data preprocessor that defers the normalisation of a training batch."""

from mmaction.registry import MODELS
from mmengine.model import BaseDataPreprocessor
from torch import Tensor

from .batch_transfer import BatchTransfer
from .clip_data_preprocessor import ClipDataPreprocessor


class DeferredPreprocessor(BaseDataPreprocessor):
    """Copy a training batch to the device as uint8 and normalise it later, chunk by chunk.

    At test time, the wrapped preprocessor processes the whole batch at once.

    Args:
        preprocessor: The wrapped preprocessor or its config.
    """

    def __init__(self, preprocessor: dict | BaseDataPreprocessor) -> None:
        super().__init__()
        if isinstance(preprocessor, dict):
            preprocessor = MODELS.build(preprocessor)
        self.preprocessor = preprocessor
        self._transfer = BatchTransfer()

    def forward(self, data: dict, training: bool = False) -> dict:
        """Stack a batch on the device.

        Args:
            data: ``inputs``, (N, …) or N tensors of equal shape, and ``data_samples``.
            training: Whether to defer the normalisation.

        Returns:
            The same keys; in training, ``inputs`` are one uint8 tensor, (N, …).
        """
        if not training:
            return self.preprocessor(data, training)
        return {**data, 'inputs': self._transfer(data['inputs'], self.device)}

    def finish(self, inputs: Tensor) -> Tensor:
        """Normalise (and augment, if configured) some videos of the batch, (n, …)."""
        accepts_tensor = isinstance(self.preprocessor, ClipDataPreprocessor)
        videos = inputs if accepts_tensor else list(inputs)
        return self.preprocessor.preprocess(videos, data_samples=None, training=True)[0]
