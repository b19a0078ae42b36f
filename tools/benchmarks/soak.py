"""Load thousands of samples, broken files among them, and watch the workers' memory.

Example:
    python tools/benchmarks/soak.py videos/*.mp4 --samples 2000 --workers 2 --bad-share 0.05

The Kinetics pipeline runs on the videos given and on files that cannot be read. Memory and
open files of each worker are read after every tenth of the samples; the first tenth warms
the caches up.
"""

import argparse
import itertools
import math
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import psutil
import torch
from mmaction.registry import DATASETS
from mmaction.utils import register_all_modules
from mmengine.config import Config
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils.data import DataLoader

from cvrl_mm.command_line import check_videos, plain_errors
from cvrl_mm.datasets.seeded_sampler import SeededSampler

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
LIST_LENGTH = 200


def write_list(folder: Path, videos: list[str], bad_share: float) -> Path:
    """Write a list of the videos and of broken copies of them, in turn."""
    data = Path(videos[0]).read_bytes()
    broken = dict(empty=b'', text=b'<html>unavailable</html>' * 20, cut=data[: len(data) // 2])
    for name, content in broken.items():
        (folder / f'{name}.mp4').write_bytes(content)
    bad = itertools.cycle([*(str(folder / f'{name}.mp4') for name in broken), '/vanished.mp4'])
    good = itertools.cycle(str(Path(video).resolve()) for video in videos)
    num_bad = round(bad_share * LIST_LENGTH)
    names = [*itertools.islice(bad, num_bad), *itertools.islice(good, LIST_LENGTH - num_bad)]
    (folder / 'list.txt').write_text('\n'.join(names), encoding='utf-8')
    return folder / 'list.txt'


def build_loader(ann_file: Path, workers: int) -> DataLoader:
    """Build the Kinetics loader over a list, with samples of a batch of one."""
    config = Config.fromfile(CONFIG).train_dataloader.dataset
    config.update(ann_file=str(ann_file), data_prefix=dict(video=''))
    dataset = DATASETS.build(config)
    order = torch.utils.data.RandomSampler(dataset)
    return DataLoader(
        dataset,
        sampler=SeededSampler(order, seed=0),
        num_workers=workers,
        persistent_workers=True,
        collate_fn=list,
        worker_init_fn=lambda _: cv2.setNumThreads(0),
    )


def read_workers() -> dict[int, tuple[float, int]]:
    """Return memory of its own in MiB and open files of each worker, by process id."""
    children = psutil.Process().children()
    return {p.pid: (p.memory_full_info().uss / 2**20, p.num_fds()) for p in children}


def soak(loader: DataLoader, num_samples: int) -> tuple[list[dict], float, float]:
    """Load whole epochs; return ten readings, the share replaced, and samples a second."""
    readings, replaced, loaded = [], 0, 0
    start = time.perf_counter()
    epochs = range(math.ceil(num_samples / len(loader)))
    for epoch in track(epochs, 'passes', console=Console(stderr=True)):
        loader.batch_sampler.sampler.epoch = epoch
        for (sample,) in loader:
            loaded += 1
            replaced += bool(sample['data_samples'].unreadable)
            if loaded % (num_samples // 10) == 0 and len(readings) < 10:
                readings.append(read_workers())
    return readings, replaced / loaded, loaded / (time.perf_counter() - start)


@plain_errors()
def main() -> None:
    """Load and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', help='videos that can be read')
    parser.add_argument('--samples', type=int, default=2000, help='samples to load, about')
    parser.add_argument('--workers', type=int, default=2, help='worker processes')
    parser.add_argument('--bad-share', type=float, default=0.04, help='share of broken files')
    args = parser.parse_args()
    check_videos(args.videos)
    register_all_modules()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        loader = build_loader(write_list(Path(folder), args.videos, args.bad_share), args.workers)
        readings, replaced, rate = soak(loader, max(args.samples, 10))
    table = Table(title=f'{args.samples} samples, {replaced:.1%} replaced, {rate:.1f} samples/s')
    for heading in ('worker', 'MiB at 10 %', 'MiB at 50 %', 'MiB at the end', 'largest', 'files'):
        table.add_column(heading, justify='right')
    for number, pid in enumerate(readings[0]):
        memory, files = np.array([reading[pid] for reading in readings]).T
        marks = (memory[0], memory[4], memory[9], memory.max())
        shown = [f'{mib:.0f}' for mib in marks]
        table.add_row(str(number), *shown, f'{files[0]:.0f} to {files[-1]:.0f}')
    Console().print(table)


if __name__ == '__main__':
    main()
