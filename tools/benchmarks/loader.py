"""Measure the time of a pre-training sample on one core, compared with MMAction2's decoding.

Example:
    python tools/benchmarks/loader.py videos/*.mp4 --rounds 20

All variants decode the same frames: MMAction2's transforms for decord, the reader of this package,
and its pre-training pipeline on original and on repacked videos (tools/data/repack.py). Every round
runs all variants on all videos in random order, and ratios are computed within a round. Times are
processor time of all threads of the process, which is bound to one core, to reduce the effect of
other processes. This benchmark needs decord.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from rich.console import Console
from rich.table import Table

import cvrl_mm
from cvrl_mm.augmentation import ClipTransform, ConsistentAugment
from cvrl_mm.cli import check_videos, plain_errors
from cvrl_mm.engine.runtime import print_warnings_only
from cvrl_mm.io import progress
from cvrl_mm.preparation.repack import RepackSettings, repack_video

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
DECODING, OPENING = "MMAction2's decoding alone", "MMAction2's opening alone"


@dataclass(frozen=True)
class Variant:
    """A pipeline, or its beginning, and what it is compared with.

    Args:
        pipeline: The transforms that are timed.
        videos: The files that they load.
        base: Name of the variant to which its time is related.
    """

    pipeline: Sequence[BaseTransform]
    videos: Sequence[str]
    base: str = DECODING


class Blur23(BaseTransform):
    """A blur for the pipeline of MMAction2, which has none: 23 taps, one sigma for all images."""

    def transform(self, results: dict) -> dict:
        """Blur all images."""
        sigma = np.random.uniform(0.1, 2.0)
        results['imgs'] = [cv2.GaussianBlur(img, (23, 23), sigma) for img in results['imgs']]
        return results


def build_variants(videos: Sequence[str], repacked: Sequence[str]) -> dict[str, Variant]:
    """Build the pipelines to compare; all that decode begin with the same sampler."""
    config = Config.fromfile(CONFIG)
    pipeline = [TRANSFORMS.build(cfg) for cfg in config.train_pipeline]
    opening, sample, decode, augment, *closing = pipeline
    decord_opening, decord_decode = (
        TRANSFORMS.build(dict(type=name)) for name in ('DecordInit', 'DecordDecode')
    )
    decord = [decord_opening, sample, decord_decode]
    spatial = [t for t in augment.transforms if not isinstance(t, ClipTransform)]
    plain = [opening, sample, decode, ConsistentAugment(spatial), *closing]
    variants = {
        DECODING: Variant(decord, videos),
        'decoding alone': Variant([opening, sample, decode], videos),
        'whole pipeline': Variant(pipeline, videos),
        'without colour and blur': Variant(plain, videos),
        'decoding alone, repacked videos': Variant([opening, sample, decode], repacked),
        'whole pipeline, repacked videos': Variant(pipeline, repacked),
        OPENING: Variant([decord_opening], videos, OPENING),
        'opening alone': Variant([opening], videos, OPENING),
    }
    if int(np.__version__.split('.')[0]) < 2:  # MMAction2's change of hue fails with numpy 2
        jitter = dict(type='ColorJitter', brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2)
        stock = [*decord, *spatial, TRANSFORMS.build(jitter), Blur23(), *closing]
        variants["whole pipeline of MMAction2's transforms"] = Variant(stock, videos)
    return variants


def load_ms(pipeline: Sequence[BaseTransform], video: str, seed: int) -> float:
    """Load one sample and return the processor time that it took, in ms."""
    np.random.seed(seed)  # the sampler draws first: all variants get the same frames
    random.seed(seed)
    results = dict(filename=video, label=-1, start_index=0, modality='RGB')
    start = time.process_time()
    for transform in pipeline:
        results = transform(results)
    return (time.process_time() - start) * 1e3


def measure(variants: dict[str, Variant], rounds: int, minutes: float) -> dict[str, np.ndarray]:
    """Time all variants in turn.

    Args:
        variants: Variants by name, all with the same number of videos.
        rounds: Number of rounds, besides one that warms up.
        minutes: Time after which no further round begins.

    Returns:
        Per variant the mean time per video in ms of each round, (rounds,).
    """
    end = time.monotonic() + 60 * minutes
    num_videos = len(variants[DECODING].videos)
    jobs = [(name, column) for name in variants for column in range(num_videos)]
    times = []
    with progress('rounds', Console(stderr=True)) as show:
        for turn in range(rounds + 1):
            ms = dict.fromkeys(variants, 0.0)
            for name, column in random.Random(turn).sample(jobs, len(jobs)):
                variant = variants[name]
                elapsed = load_ms(variant.pipeline, variant.videos[column], turn)
                ms[name] += elapsed / num_videos
            times.append(ms)
            show(turn, rounds)
            if turn and time.monotonic() > end:
                break
    return {name: np.array([ms[name] for ms in times[1:]]) for name in variants}


def repack_all(videos: Sequence[str], folder: Path) -> list[str]:
    """Repack the videos into a folder with the default settings."""
    targets = [str(folder / f'{i}.mp4') for i in range(len(videos))]
    for video, target in zip(videos, targets, strict=True):
        repack_video(Path(video), Path(target), RepackSettings())
    return targets


def result_table(variants: dict[str, Variant], times: dict[str, np.ndarray]) -> Table:
    """Make the table of times and ratios: medians over rounds, with quartiles of the ratios."""
    table = Table(
        title=f'cvrl_mm {cvrl_mm.__version__}: {len(variants[DECODING].videos)} videos, '
        f'{len(times[DECODING])} rounds; median (quartiles) over rounds'
    )
    table.add_column('variant')
    for heading in ('ms per video', "x MMAction2's"):
        table.add_column(heading, justify='right')
    for name, ms in times.items():
        low, middle, high = np.quantile(ms / times[variants[name].base], (0.25, 0.5, 0.75))
        ratio = f'{middle:.2f} ({low:.2f} to {high:.2f})'
        table.add_row(name, f'{np.median(ms):.1f}', ratio)
    return table


@plain_errors()
def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', help='encoded videos')
    parser.add_argument('--rounds', type=int, default=20, help='samples per video (%(default)s)')
    parser.add_argument(
        '--minutes', type=float, default=6, help='begin no round after this time (%(default)s)'
    )
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f'--rounds must be at least 1, got {args.rounds}')
    print_warnings_only()
    check_videos(args.videos)
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        variants = build_variants(args.videos, repack_all(args.videos, Path(folder)))
        times = measure(variants, args.rounds, args.minutes)
    Console().print(result_table(variants, times))


if __name__ == '__main__':
    main()
