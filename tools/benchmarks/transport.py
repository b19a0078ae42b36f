"""Measure the time in which the training process receives batches from the workers.

Example:
    python tools/benchmarks/transport.py --videos 128

It compares ``stack_collate`` with mmengine's ``pseudo_collate``. Batches of both alternate in one
run. The times are processor time of the training process: receiving a batch, making it one tensor
on the device, and releasing it. The clips are random bytes of the size that the pre-training config
gives; nothing is decoded.
"""

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from mmaction.datasets.transforms import PackActionInputs
from mmengine.dataset import pseudo_collate
from mmengine.model import stack_batch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import cvrl_mm
from cvrl_mm.datasets import stack_collate
from cvrl_mm.models import ClipDataPreprocessor

COLLATES = dict(pseudo_collate=pseudo_collate, stack_collate=stack_collate)


class Clips(Dataset):
    """Pairs of random clips in the format of the pre-training pipeline.

    Args:
        length: Number of videos.
        frames: Frames per clip.
        size: Height and width in pixels.
    """

    def __init__(self, length: int, frames: int, size: int) -> None:
        self.length = length
        self.frames = np.random.default_rng(0).integers(
            256, size=(2, frames, size, size, 3), dtype=np.uint8
        )
        self.pack = PackActionInputs()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict:
        clips = self.frames.copy().transpose(0, 4, 1, 2, 3)  # (2, 3, T, H, W)
        return self.pack(dict(imgs=clips, label=index))


def num_files() -> int:
    """Return the number of open files of this process."""
    return len(os.listdir('/dev/fd')) - 1  # without the one that lists them


def to_device(inputs: Tensor | list[Tensor], preprocessor: ClipDataPreprocessor) -> Tensor:
    """Convert a batch to one tensor on the device, like the data preprocessor of each collate."""
    on_device = preprocessor.cast_data(dict(inputs=inputs))['inputs']
    return on_device if isinstance(on_device, Tensor) else stack_batch(on_device)


def receive(batches: object, preprocessor: ClipDataPreprocessor) -> dict[str, float]:
    """Receive and release one batch.

    Returns:
        ``receive``, ``to device``, ``release``: processor time of this process in ms. ``files``:
        descriptors that the batch holds open.
    """
    files, times = num_files(), [time.process_time()]
    batch = next(batches)
    times.append(time.process_time())
    files = num_files() - files
    times.append(time.process_time())
    on_device = to_device(batch['inputs'], preprocessor)
    times.append(time.process_time())
    del batch, on_device
    times.append(time.process_time())
    ms = [1e3 * (after - before) for before, after in pairwise(times)]
    return {'receive': ms[0], 'to device': ms[2], 'release': ms[3], 'files': files}


def measure(
    videos: int, batches: int, frames: int = 16, size: int = 224, workers: int = 1
) -> dict[str, list[dict[str, float]]]:
    """Receive batches with each collate in turn.

    Args:
        videos: Videos per batch.
        batches: Batches per collate.
        frames: Frames per clip.
        size: Height and width in pixels.
        workers: Workers of each loader.

    Returns:
        The results of :func:`receive` of each collate.
    """
    if torch.cuda.is_available():
        torch.cuda.init()  # buffers are page-locked if CUDA is initialised
    data = Clips(videos * batches, frames, size)
    loaders = {
        name: iter(DataLoader(data, videos, num_workers=workers, collate_fn=collate, timeout=60))
        for name, collate in COLLATES.items()
    }
    preprocessor = ClipDataPreprocessor().to('cuda' if torch.cuda.is_available() else 'cpu')
    results: dict[str, list] = {name: [] for name in COLLATES}
    for _ in range(batches):
        for name, loader in loaders.items():
            results[name].append(receive(loader, preprocessor))
    return results


def summary(results: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the medians, and the median and the largest of the sum of the times."""
    columns = {key: [result[key] for result in results] for key in results[0]}
    files = columns.pop('files')
    sums = [sum(times) for times in zip(*columns.values(), strict=True)]
    medians = {key: median(values) for key, values in columns.items()}
    return {**medians, 'sum': median(sums), 'largest sum': max(sums), 'files': median(files)}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, type=int)
    add('--videos', default=128, help='per batch (%(default)s)')
    add('--batches', default=12, help='per collate (%(default)s)')
    add('--frames', default=16, help='per clip (%(default)s)')
    add('--size', default=224, help='height and width in pixels (%(default)s)')
    args = parser.parse_args()
    if min(vars(args).values()) < 1:
        parser.error('all numbers must be positive')
    torch.set_num_threads(1)  # as mmengine sets it for trainings on several GPUs
    results = measure(args.videos, args.batches, args.frames, args.size)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'
    title = f'cvrl_mm {cvrl_mm.__version__}, {where}: ms per batch of {args.videos} videos, median'
    table = Table(title=title)
    rows = {name: summary(result) for name, result in results.items()}
    for heading in ('collate', *rows['stack_collate']):
        table.add_column(heading, justify='left' if heading == 'collate' else 'right')
    for name, values in rows.items():
        table.add_row(name, *(f'{value:.1f}' for value in values.values()))
    Console().print(table)


if __name__ == '__main__':
    main()
