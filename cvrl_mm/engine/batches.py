"""What hooks read out of a batch."""

from mmengine.structures import BaseDataElement


def samples_of(data_batch: object) -> list[BaseDataElement]:
    """Return the data samples of a batch as the loader gives it, none if it has no such."""
    return data_batch.get('data_samples', []) if isinstance(data_batch, dict) else []
