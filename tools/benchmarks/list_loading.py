"""Measure processor time and memory of a long list of videos, compared with MMAction2.

Example:
    python tools/benchmarks/list_loading.py --lines 10000000 --stock-lines 1000000

Each dataset is built in a separate process. The peak of the memory does not include the imports.
MMAction2's dataset gets fewer lines, because its time and memory grow with their number.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from mmaction.datasets import VideoDataset
from rich.console import Console
from rich.table import Table

import cvrl_mm
from cvrl_mm.datasets import VideoListDataset

NAME = 'some_class_{0:03d}/dQw4w9WgXcQ_{1:08d}.mp4'


def write_list(folder: Path, num_lines: int) -> Path:
    """Write a list like those of Kinetics; its first file exists."""
    path = folder / f'{num_lines}.txt'
    with open(path, 'w') as file:
        file.writelines(f'{NAME.format(i % 400, i)} {i % 400}\n' for i in range(num_lines))
    return path


def peak_bytes() -> int:
    """Return the peak of the resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == 'darwin' else peak * 1024


def load(cls: type[VideoDataset], ann_file: Path) -> tuple[float, float, int, float]:
    """Build a dataset; return seconds, peak in GB, its length and us per entry."""
    before, start = peak_bytes(), time.process_time()
    dataset = cls(str(ann_file), [], data_prefix=dict(video='data/kinetics/videos_train'))
    seconds, peak = time.process_time() - start, peak_bytes() - before
    start = time.process_time()
    for index in range(0, len(dataset), max(1, len(dataset) // 10_000)):
        dataset.get_data_info(index)
    return seconds, peak / 1e9, len(dataset), (time.process_time() - start) / 1e4 * 1e6


class Unchecked(VideoListDataset):
    """The dataset without the check of files, which the benchmark does not have."""

    def _check_files(self, videos: list[dict]) -> None:
        pass


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--lines', type=int, default=10_000_000, help='(%(default)s)')
    parser.add_argument('--stock-lines', type=int, default=1_000_000, help='(%(default)s)')
    args = parser.parse_args()
    table = Table(title=f'cvrl_mm {cvrl_mm.__version__}: loading a list of videos')
    for heading in ('dataset', 'lines', 'seconds', 'peak GB', 'us per entry'):
        table.add_column(heading, justify='left' if heading == 'dataset' else 'right')
    context = multiprocessing.get_context('spawn')  # a fork would inherit the peak of this process
    with tempfile.TemporaryDirectory() as folder:
        for name, cls, num_lines in (
            ('VideoDataset', VideoDataset, args.stock_lines),
            ('VideoListDataset', Unchecked, args.stock_lines),
            ('VideoListDataset', Unchecked, args.lines),
        ):
            with context.Pool(1) as pool:
                job = cls, write_list(Path(folder), num_lines)
                seconds, peak, length, entry_us = pool.apply(load, job)
            cells = f'{length:,}', f'{seconds:.2f}', f'{peak:.2f}', f'{entry_us:.1f}'
            table.add_row(name, *cells)
    Console().print(table)


if __name__ == '__main__':
    main()
