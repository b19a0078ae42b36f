"""Access to the samples of a batch."""

from mmengine.structures import BaseDataElement


def samples_of(data_batch: object) -> list[BaseDataElement]:
    """Return the data samples of a batch from the loader; empty if it has none."""
    return data_batch.get('data_samples', []) if isinstance(data_batch, dict) else []
