"""Open thousands of videos in loader workers and measure speed, memory and open files.

Example:
    python tools/benchmarks/soak.py videos/*.mp4 --openings 20000 --workers 1

Each opening is a sample of the pre-training dataset up to decoding: the file is opened and the
frames of two clips are decoded, without augmentation. Some files of the list cannot be read and are
replaced. After each tenth of the openings the script reads, per worker, the processor time per
opening in that tenth, its private memory (USS) and the number of open file descriptors. It needs
``pip install psutil``.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterable
from multiprocessing import active_children
from pathlib import Path

import psutil
import torch
from mmaction.registry import DATASETS
from mmaction.structures import ActionDataSample
from mmaction.utils import register_all_modules
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, RandomSampler

from cvrl_mm.cli import check_videos, plain_errors
from cvrl_mm.datasets.seeding import SampleIndex
from cvrl_mm.io import progress

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
LIST_LENGTH = 200
BAD_FILES = 8  # of LIST_LENGTH

Reading = tuple[float, float, int]  # processor seconds, MiB and descriptors of a worker


class DropImages(BaseTransform):
    """Return what a sample must have, without its images, so that sending it takes no time."""

    def transform(self, results: dict) -> dict:
        """Drop the images."""
        return dict(data_samples=ActionDataSample())


def write_list(folder: Path, videos: list[str]) -> Path:
    """Write a list that repeats the videos and some files that cannot be read."""
    data = Path(videos[0]).read_bytes()
    broken = dict(empty=b'', text=b'<html>unavailable</html>' * 20, cut=data[: len(data) // 2])
    for name, content in broken.items():
        (folder / f'{name}.mp4').write_bytes(content)
    bad = itertools.cycle([*(str(folder / f'{name}.mp4') for name in broken), '/vanished.mp4'])
    good = itertools.cycle(str(Path(video).resolve()) for video in videos)
    names = [*itertools.islice(bad, BAD_FILES), *itertools.islice(good, LIST_LENGTH - BAD_FILES)]
    (folder / 'list.txt').write_text('\n'.join(names), encoding='utf-8')
    return folder / 'list.txt'


def build_loader(ann_file: Path, workers: int) -> DataLoader:
    """Build the loader of the pre-training dataset over a list, up to decoding."""
    config = Config.fromfile(CONFIG)
    dataset = config.train_dataloader.dataset
    pipeline = [config.open_video, config.sample, config.decode]
    dataset.update(ann_file=str(ann_file), data_prefix=dict(video=''), pipeline=pipeline)
    dataset = DATASETS.build(dataset)
    dataset.pipeline.transforms.append(DropImages())
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=[SampleIndex(i, seed=0, epoch=0) for i in RandomSampler(dataset)],
        num_workers=workers,
        persistent_workers=True,
    )


def read_workers(pids: Iterable[int]) -> dict[int, Reading]:
    """Read processes, by their ids."""
    readings = {}
    for worker in map(psutil.Process, pids):
        times = worker.cpu_times()
        memory = worker.memory_full_info().uss / 2**20
        readings[worker.pid] = times.user + times.system, memory, worker.num_fds()
    return readings


def soak(loader: DataLoader, openings: int) -> tuple[list[dict[int, Reading]], float]:
    """Load samples, passing over the list as often as needed.

    Args:
        loader: The loader.
        openings: Number of samples, a multiple of ten.

    Returns:
        The readings of the workers after the first sample and after each tenth, and the share of
        replaced samples.
    """
    readings, replaced, loaded = [], 0, 0
    others = {process.pid for process in active_children()}
    with progress('openings', Console(stderr=True)) as show:
        for epoch in itertools.count():
            loader.sampler.epoch = epoch
            for sample in loader:
                loaded += 1
                replaced += bool(sample['data_samples'].unreadable)
                if loaded == 1 or loaded % (openings // 10) == 0:
                    pids = {process.pid for process in active_children()} - others
                    readings.append(read_workers(pids))
                    show(loaded, openings)
                if loaded == openings:
                    return readings, replaced / loaded
    raise AssertionError


def result_table(readings: list[dict[int, Reading]], openings: int, replaced: float) -> Table:
    """Make the table with one row per tenth; several workers are listed in one cell."""
    workers = list(readings[0])
    table = Table(title=f'{openings} openings, {len(workers)} workers, {replaced:.1%} replaced')
    for heading in ('openings', 'ms per opening', 'MiB', 'open files'):
        table.add_column(heading, justify='right')
    for tenth in range(1, 11):
        before, after = readings[tenth - 1], readings[tenth]
        seconds = sum(after[pid][0] - before[pid][0] for pid in workers)
        memory = ', '.join(f'{after[pid][1]:.0f}' for pid in workers)
        files = ', '.join(str(after[pid][2]) for pid in workers)
        done = openings // 10
        ms = f'{seconds / done * 1e3:.2f}'
        table.add_row(str(tenth * done), ms, memory, files)
    return table


@plain_errors()
def main() -> None:
    """Load and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', help='videos that can be read')
    parser.add_argument(
        '--openings', type=int, default=20_000, help='openings per worker (%(default)s)'
    )
    parser.add_argument('--workers', type=int, default=1, help='loader workers (%(default)s)')
    args = parser.parse_args()
    if args.openings < 20 or args.openings % 10 or args.workers < 1:
        parser.error(
            '--openings must be a multiple of 10 from 20 on and --workers at least 1, got '
            f'{args.openings} and {args.workers}'
        )
    check_videos(args.videos)
    register_all_modules()
    torch.set_num_threads(1)
    openings = args.openings * args.workers
    with tempfile.TemporaryDirectory() as folder:
        loader = build_loader(write_list(Path(folder), args.videos), args.workers)
        readings, replaced = soak(loader, openings)
    Console().print(result_table(readings, openings, replaced))


if __name__ == '__main__':
    main()
