"""How fast videos load for their size on the disk, as they are and repacked.

Example:
    python tools/benchmarks/repack.py videos/*.mp4 --repeats 20

Loading means opening a file and decoding the frames of two clips as in pre-training. The
versions of a video take turns in one run, and the same frames are decoded of each. Times are
processor time of all threads.
"""

import argparse
import itertools
import os
import random
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from rich.console import Console
from rich.progress import track
from rich.table import Table

import cvrl_mm
from cvrl_mm.command_line import check_videos, plain_errors
from cvrl_mm.preparation.repack_video import RepackSettings, repack_video

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
ORIGINAL = 'original'


def write_versions(
    videos: list[Path], folder: Path, intervals: list[int], crfs: list[int]
) -> dict[str, list[Path]]:
    """Repack the videos with all settings; returns the files of each version."""
    versions = {ORIGINAL: videos}
    for crf, interval in track(list(itertools.product(crfs, intervals)), 'repacking'):
        name = f'key frame every {interval}, crf {crf}'
        versions[name] = [folder / f'{crf}_{interval}_{i}.mp4' for i in range(len(videos))]
        for video, target in zip(videos, versions[name], strict=True):
            settings = RepackSettings(key_frame_interval=interval, crf=crf)
            repack_video(video, target, settings)
    return versions


def load_ms(pipeline: list[BaseTransform], video: Path, seed: int) -> float:
    """Load two clips and return the processor time it took, in ms."""
    np.random.seed(seed)
    results = dict(filename=str(video), label=-1, start_index=0, modality='RGB')
    start = time.process_time()
    for transform in pipeline:
        results = transform(results)
    return (time.process_time() - start) * 1e3


def measure(versions: dict[str, list[Path]], repeats: int) -> dict[str, np.ndarray]:
    """Return the times in ms of every version, (repeats, videos)."""
    cfg = Config.fromfile(CONFIG)
    pipeline = [TRANSFORMS.build(step) for step in (cfg.open_video, cfg.sample, cfg.decode)]
    times = {name: np.empty((repeats, len(files))) for name, files in versions.items()}
    for repeat in track(range(-1, repeats), 'loading'):  # the first round is overwritten
        for name in random.Random(repeat).sample(list(versions), len(versions)):
            for column, video in enumerate(versions[name]):
                times[name][max(repeat, 0), column] = load_ms(pipeline, video, repeat + 1)
    return times


@plain_errors()
def main() -> None:
    """Repack, measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', type=Path, help='encoded videos')
    parser.add_argument('--repeats', type=int, default=20, help='samples of each (%(default)s)')
    parser.add_argument('--key-frame-intervals', type=int, nargs='+', default=[4, 8, 16, 32])
    parser.add_argument('--crfs', type=int, nargs='+', default=[18, 23])
    args = parser.parse_args()
    check_videos(args.videos)
    cv2.setNumThreads(1)
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

    table = Table(
        title=f'cvrl_mm {cvrl_mm.__version__}: {len(args.videos)} videos, {args.repeats} samples '
        'each; median over samples, mean over videos'
    )
    for heading in ('version', 'ms a video', 'x original', 'MB', 'x original'):
        table.add_column(heading, justify='left' if heading == 'version' else 'right')
    with tempfile.TemporaryDirectory() as folder:
        versions = write_versions(args.videos, Path(folder), args.key_frame_intervals, args.crfs)
        times = measure(versions, args.repeats)
        medians = {name: np.median(ms, axis=0).mean() for name, ms in times.items()}
        for name, files in versions.items():
            size = sum(file.stat().st_size for file in files)
            original = sum(file.stat().st_size for file in args.videos)
            ratio = medians[name] / medians[ORIGINAL]
            megabytes = f'{size / 1e6:.2f}', f'{size / original:.2f}'
            table.add_row(name, f'{medians[name]:.1f}', f'{ratio:.2f}', *megabytes)
    Console().print(table)


if __name__ == '__main__':
    main()
