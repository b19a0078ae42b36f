"""Measure the time in which the training process receives batches from the workers.

Example:
    python tools/benchmarks/transport.py --videos 128

It compares ``stack_collate`` with mmengine's ``pseudo_collate``, whose batches alternate. The times
are processor time of the training process: receiving a batch, making it one tensor on the device,
and releasing it. The clips are random bytes of the size of pre-training; nothing is decoded.
"""

import time
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from mmaction.datasets.transforms import PackActionInputs
from mmengine.dataset import pseudo_collate
from mmengine.model import stack_batch
from torch.utils.data import DataLoader, Dataset

from cvrl_cli import make_parser
from cvrl_mm.datasets import stack_collate
from cvrl_mm.models import ClipDataPreprocessor

COLLATES = dict(pseudo_collate=pseudo_collate, stack_collate=stack_collate)
BATCHES = 12  # per collate


class Clips(Dataset):
    """Pairs of clips of random bytes, in the format of the pre-training pipeline.

    Args:
        length: Number of videos.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.frames = np.random.default_rng(0).integers(256, size=(2, 16, 224, 224, 3), dtype='u1')
        self.pack = PackActionInputs()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict:
        clips = self.frames.copy().transpose(0, 4, 1, 2, 3)  # (2, 3, T, H, W)
        return self.pack(dict(imgs=clips, label=index))


def receive(batches: object, preprocessor: ClipDataPreprocessor) -> list[float]:
    """Return the ms to receive a batch, to make it one tensor on the device, and to release it."""
    times = [time.process_time()]
    batch = next(batches)
    times.append(time.process_time())
    on_device = preprocessor.cast_data(dict(inputs=batch['inputs']))['inputs']
    if isinstance(on_device, list):  # of pseudo_collate
        on_device = stack_batch(on_device)
    times.append(time.process_time())
    del batch, on_device
    times.append(time.process_time())
    return [1e3 * (after - before) for before, after in pairwise(times)]


def main() -> None:
    """Measure and print the medians."""
    parser = make_parser(__doc__)
    parser.add_argument('--videos', type=int, default=128, help='per batch (%(default)s)')
    videos = parser.parse_args().videos
    torch.set_num_threads(1)  # as mmengine sets it for trainings on several GPUs
    if torch.cuda.is_available():
        torch.cuda.init()  # buffers are page-locked if CUDA is initialised
    preprocessor = ClipDataPreprocessor().to('cuda' if torch.cuda.is_available() else 'cpu')
    loaders = {
        name: iter(DataLoader(Clips(videos * BATCHES), videos, num_workers=1, collate_fn=collate))
        for name, collate in COLLATES.items()
    }
    times: dict[str, list] = {name: [] for name in COLLATES}
    for _ in range(BATCHES):
        for name, batches in loaders.items():
            times[name].append(receive(batches, preprocessor))
    print(f'ms per batch of {videos} videos, medians of {BATCHES} batches')
    for name, rows in times.items():
        received, moved, released = map(median, zip(*rows, strict=True))
        total = median(map(sum, rows))
        print(
            f'{name}: {total:.1f} in all, {received:.1f} to receive, {moved:.1f} to the device, '
            f'{released:.1f} to release'
        )


if __name__ == '__main__':
    main()
