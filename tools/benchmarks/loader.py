"""Measure the time of a pre-training sample on one core, compared with MMAction2's decoding.

Example:
    python tools/benchmarks/loader.py videos/*.mp4 --rounds 20

All variants take the same frames: MMAction2's transforms for decord, the reader of this package,
and its pre-training pipeline on original videos, on repacked ones (cvrl repack) and on
stored frames (datasets/frame_store.py). Every round
runs all variants on all videos in random order, and ratios are computed within a round. Times are
processor time of all threads of the process, which is bound to one core, to reduce the effect of
other processes. This benchmark needs decord.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from mmaction.registry import TRANSFORMS
from mmengine.config import Config
from rich.console import Console
from rich.table import Table

import cvrl_mm
from cvrl_cli import make_parser
from cvrl_mm.augmentation import ClipTransform, ConsistentAugment
from cvrl_mm.datasets.frame_store import FrameStore, open_store
from cvrl_mm.options import RepackSettings
from cvrl_mm.preparation.repack import repack_video
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors, print_warnings_only

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
BASE = "MMAction2's decoding alone"
Pipeline = Sequence[Callable[[dict], dict]]
Variants = dict[str, tuple[Pipeline, Sequence[str]]]  # pipelines and their videos


def build_variants(
    config: Config, videos: Sequence[str], repacked: Sequence[str], store: FrameStore
) -> Variants:
    """Build the pipelines to compare; all begin with the same sampler."""

    def find(results: dict) -> dict:
        return {**results, 'video_reader': store.get(results['filename'])}

    pipeline = [TRANSFORMS.build(cfg) for cfg in config.train_pipeline]
    opening, sample, decode, augment, *closing = pipeline
    init, decord = (TRANSFORMS.build(dict(type=name)) for name in ('DecordInit', 'DecordDecode'))
    spatial = [t for t in augment.transforms if not isinstance(t, ClipTransform)]
    plain = [opening, sample, decode, ConsistentAugment(spatial), *closing]
    return {
        BASE: ([init, sample, decord], videos),
        'decoding alone': ([opening, sample, decode], videos),
        'whole pipeline': (pipeline, videos),
        'without colour and blur': (plain, videos),
        'decoding alone, repacked videos': ([opening, sample, decode], repacked),
        'whole pipeline, repacked videos': (pipeline, repacked),
        'whole pipeline, stored frames': ([find, *pipeline], videos),
    }


def load_ms(pipeline: Pipeline, video: str, seed: int) -> float:
    """Load one sample and return the processor time that it took, in ms."""
    np.random.seed(seed)  # the sampler draws first: all variants get the same frames
    random.seed(seed)
    results = dict(filename=video, label=-1, start_index=0, modality='RGB')
    start = time.process_time()
    for transform in pipeline:
        results = transform(results)
    return (time.process_time() - start) * 1e3


def measure(variants: Variants, rounds: int) -> dict[str, np.ndarray]:
    """Return, per variant, the mean time per video in ms of each round, (rounds,)."""
    times = {name: np.zeros(rounds + 1) for name in variants}
    jobs = [(name, video) for name, (_, videos) in variants.items() for video in videos]
    with progress('rounds', Console(stderr=True)) as show:
        for turn in range(rounds + 1):  # the first one warms up
            for name, video in random.Random(turn).sample(jobs, len(jobs)):
                pipeline, videos = variants[name]
                times[name][turn] += load_ms(pipeline, video, turn) / len(videos)
            show(turn, rounds)
    return {name: ms[1:] for name, ms in times.items()}


def result_table(title: str, times: dict[str, np.ndarray]) -> Table:
    """Make the table of times and ratios: medians over rounds, with quartiles of the ratios."""
    table = Table(title=f'cvrl_mm {cvrl_mm.__version__}: {title}; median (quartiles) over rounds')
    table.add_column('variant')
    for heading in ('ms per video', "x MMAction2's"):
        table.add_column(heading, justify='right')
    for name, ms in times.items():
        low, middle, high = np.quantile(ms / times[BASE], (0.25, 0.5, 0.75))
        ratio = f'{middle:.2f} ({low:.2f} to {high:.2f})'
        table.add_row(name, f'{np.median(ms):.1f}', ratio)
    return table


@plain_errors()
def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__)
    parser.add_argument('videos', nargs='+', help='encoded videos')
    parser.add_argument('--rounds', type=int, default=20, help='samples per video (%(default)s)')
    parser.add_argument('--config', default=CONFIG, help='a config with train_pipeline')
    args = parser.parse_args()
    print_warnings_only()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        repacked = [f'{folder}/{i}.mp4' for i in range(len(args.videos))]
        for video, target in zip(args.videos, repacked, strict=True):
            repack_video(Path(video), Path(target), RepackSettings())
        store = open_store(args.videos, f'{folder}/frames')
        config = Config.fromfile(args.config)
        times = measure(build_variants(config, args.videos, repacked, store), args.rounds)
    Console().print(result_table(f'{len(repacked)} videos, {args.rounds} rounds', times))


if __name__ == '__main__':
    main()
