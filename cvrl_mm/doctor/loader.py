"""Measure how fast the samples of a config are loaded."""

import time

from mmaction.registry import DATASETS
from mmengine.config import Config

from ..io import usable_cores
from .finding import Finding

NUM_SAMPLES = 64
MAX_SECONDS = 10.0


def check_loader(config: Config, ranks: int) -> Finding:
    """Load samples for some seconds and report how fast the workers can deliver batches.

    Args:
        config: A training config.
        ranks: Number of training processes on this machine.
    """
    name = 'loader'
    loader = config.train_dataloader
    try:
        dataset = DATASETS.build(loader.dataset)
        num = min(NUM_SAMPLES, len(dataset))
        start, loaded = time.perf_counter(), 0
        while loaded < num and time.perf_counter() - start < MAX_SECONDS:
            dataset[loaded * len(dataset) // num]
            loaded += 1
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Finding('note', name, f'not measured: {reason}', 'prepare the data (docs/data.md)')
    if not loaded:
        return Finding('note', name, 'not measured: the training list is empty')
    rate = loaded / (time.perf_counter() - start)
    cores = usable_cores()
    workers = max(loader.get('num_workers', 0), 1)
    busy = min(workers, cores / ranks)
    seconds = loader.batch_size / (rate * busy)
    seen = (
        f'{rate:.1f} videos per second on one core ({loaded} loaded); {workers} workers on '
        f'{cores / ranks:g} cores per rank deliver a batch of {loader.batch_size} every '
        f'{seconds:.1f} s at best'
    )
    if workers * ranks > cores:
        advice = f'there are fewer cores than workers ({ranks} x {workers}): see docs/speed.md'
        return Finding('note', name, seen, advice)
    return Finding('ok', name, seen)
