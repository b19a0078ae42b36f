"""A data preprocessor that lets a batch wait as it was loaded."""

from mmaction.registry import MODELS
from mmengine.model import BaseDataPreprocessor, stack_batch
from torch import Tensor


class DeferredPreprocessor(BaseDataPreprocessor):
    """Move a training batch to the device as uint8 and normalise it chunk by chunk later.

    At test time it does at once what the preprocessor that it holds does.

    Args:
        preprocessor: The preprocessor, or its config, that is put off.
    """

    def __init__(self, preprocessor: dict | BaseDataPreprocessor) -> None:
        super().__init__()
        if isinstance(preprocessor, dict):
            preprocessor = MODELS.build(preprocessor)
        self.preprocessor = preprocessor

    def forward(self, data: dict, training: bool = False) -> dict:
        """Stack a batch.

        Args:
            data: ``inputs``, N tensors of equal shape, and ``data_samples``.
            training: Whether the rest is put off.

        Returns:
            The same keys; in training, ``inputs`` are one uint8 tensor, (N, …).
        """
        if not training:
            return self.preprocessor(data, training)
        data = self.cast_data(data)
        return {**data, 'inputs': stack_batch(data['inputs'])}

    def finish(self, inputs: Tensor) -> Tensor:
        """Do what was put off, for some of the videos, (n, …)."""
        return self.preprocessor.preprocess(list(inputs), data_samples=None, training=True)[0]
