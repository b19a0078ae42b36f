"""What loading a pre-training sample costs beside decoding alone, on one core.

Example:
    python tools/benchmarks/loader.py videos/*.mp4 --repeats 20

All variants take turns in one run and decode the same frames. Times are processor time of
all threads, so that other work on the machine counts as little as possible.
"""

import argparse
import os
import random
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from rich.console import Console
from rich.progress import track
from rich.table import Table

import cvrl_mm
from cvrl_mm.augmentation import ClipTransform, ConsistentAugment
from cvrl_mm.command_line import check_videos, plain_errors

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
ALONE = 'decoding alone, stock'


class Blur23(BaseTransform):
    """The blur that stands in for the one that the stock transforms lack."""

    def transform(self, results: dict) -> dict:
        """Blur all images with one sigma and 23 taps."""
        sigma = np.random.uniform(0.1, 2.0)
        results['imgs'] = [cv2.GaussianBlur(img, (23, 23), sigma) for img in results['imgs']]
        return results


def build_variants() -> dict[str, list[BaseTransform]]:
    """Build the pipelines to compare; all start with the same sampler."""
    config = Config.fromfile(CONFIG)
    pipeline = [TRANSFORMS.build(cfg) for cfg in config.train_pipeline]
    opening, decode, augment, *closing = pipeline[:2], *pipeline[2:]
    decord = [TRANSFORMS.build(dict(type='DecordInit')), opening[1]]
    stock = [*decord, TRANSFORMS.build(dict(type='DecordDecode'))]
    spatial = [t for t in augment.transforms if not isinstance(t, ClipTransform)]
    jitter = dict(type='ColorJitter', brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2)
    variants = {
        ALONE: stock,
        'decord in file order': [*decord, TRANSFORMS.build(dict(type='SortedDecordDecode'))],
        'decoding alone': [*opening, decode],
        'whole pipeline': pipeline,
        'without the photometric part': [*opening, decode, ConsistentAugment(spatial), *closing],
    }
    if int(np.__version__.split('.')[0]) < 2:  # MMAction2's change of hue needs numpy 1
        stock_jitter = TRANSFORMS.build(jitter)
        variants['stock composition'] = [*stock, *spatial, stock_jitter, Blur23(), *closing]
    return variants


def load_ms(pipeline: list[BaseTransform], video: str, seed: int) -> float:
    """Load one sample and return the processor time it took, in ms."""
    np.random.seed(seed)  # the sampler draws first: all variants get the same frames
    random.seed(seed)
    results = dict(filename=video, label=-1, start_index=0, modality='RGB')
    start = time.process_time()
    for transform in pipeline:
        results = transform(results)
    return (time.process_time() - start) * 1e3


def draw_us(sampler: BaseTransform, num_frames: int, draws: int = 20_000) -> float:
    """Return the time of one draw of two clips, in microseconds."""
    start = time.process_time()
    for _ in range(draws):
        sampler({'total_frames': num_frames})
    return (time.process_time() - start) / draws * 1e6


def measure(videos: list[str], repeats: int) -> dict[str, np.ndarray]:
    """Return the times in ms of every variant, (repeats, videos)."""
    variants = build_variants()
    times = {name: np.empty((repeats, len(videos))) for name in variants}
    # the first round warms up and is overwritten
    for repeat in track(range(-1, repeats), 'rounds', console=Console(stderr=True)):
        for column, video in enumerate(videos):
            for name in random.Random(repeat).sample(list(variants), len(variants)):
                elapsed = load_ms(variants[name], video, repeat + 1)
                times[name][max(repeat, 0), column] = elapsed
    return times


@plain_errors()
def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', help='encoded videos')
    parser.add_argument('--repeats', type=int, default=20, help='samples of each video')
    args = parser.parse_args()
    check_videos(args.videos)
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

    times = measure(args.videos, args.repeats)
    medians = {name: np.median(ms, axis=0).mean() for name, ms in times.items()}
    table = Table(
        title=f'cvrl_mm {cvrl_mm.__version__}: {len(args.videos)} videos, {args.repeats} samples '
        'each; median over samples, mean over videos'
    )
    for heading in ('variant', 'ms per video', 'x decoding alone, stock', 'x decoding alone'):
        table.add_column(heading, justify='left' if heading == 'variant' else 'right')
    for name, ms in medians.items():
        ratios = [f'{ms / medians[base]:.2f}' for base in (ALONE, 'decoding alone')]
        table.add_row(name, f'{ms:.1f}', *ratios)
    Console().print(table)
    sampler = TRANSFORMS.build(Config.fromfile(CONFIG).sample)
    Console().print(f'The sampler takes {draw_us(sampler, 300):.1f} us per video of 300 frames.')


if __name__ == '__main__':
    main()
