"""Measure loading time and size of videos, original and encoded again with several settings.

Example:
    python tools/benchmarks/repack.py videos/*.mp4 --rounds 10

Loading means opening a file and decoding the frames of two clips of 16 frames as in pre-training.
Every round loads all versions of all videos in random order, the same frames of each version, and
ratios are taken within a round. Times are processor time of all threads of the process, which is
bound to one core. One version is Motion JPEG, which tools/data/repack.py does not write.
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

import av
import cv2
import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from rich.console import Console
from rich.table import Table

import cvrl_mm
from cvrl_mm.cli import check_videos, plain_errors
from cvrl_mm.datasets.reader import VideoFile
from cvrl_mm.io import progress
from cvrl_mm.preparation.repack import RepackSettings, repack_video

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'
ORIGINAL, JPEG = 'original', 'Motion JPEG, qscale 3'
X264 = dict(tune='none', x264_params='b-pyramid=normal')
CANDIDATES = {
    "x264's defaults, key frame every 8": RepackSettings(key_frame_interval=8, **X264),
    "x264's defaults, key frame every 16": RepackSettings(**X264),
    "x264's defaults, key frame every 32": RepackSettings(key_frame_interval=32, **X264),
    'no B-frames': RepackSettings(tune='none', x264_params='bframes=0'),
    'four slices': RepackSettings(tune='none', x264_params='slices=4'),
    'no reference to B-frames': RepackSettings(tune='none'),
    'fastdecode': RepackSettings(x264_params='b-pyramid=normal'),
    'fastdecode, no B-frames': RepackSettings(x264_params='bframes=0'),
    'default, key frame every 8': RepackSettings(key_frame_interval=8),
    'default: both, key frame every 16': RepackSettings(),
    'default, key frame every 32': RepackSettings(key_frame_interval=32),
    'default, crf 18': RepackSettings(crf=18),
    'default, key frames only': RepackSettings(key_frame_interval=1),
}


def write_versions(
    videos: list[Path], folder: Path, candidates: dict[str, RepackSettings]
) -> dict[str, list[Path]]:
    """Encode the videos with all settings; return the files of each version."""
    versions = {ORIGINAL: videos}
    names = [*candidates, JPEG]
    with progress('encoding', Console(stderr=True)) as show:
        for number, name in enumerate(names):
            show(number, len(names))
            versions[name] = [folder / f'{number}_{i}.mp4' for i in range(len(videos))]
            for video, target in zip(videos, versions[name], strict=True):
                if name == JPEG:
                    write_jpeg(video, target)
                else:
                    repack_video(video, target, candidates[name])
    return versions


def write_jpeg(video: Path, target: Path) -> None:
    """Write a video as Motion JPEG in the size that repacking gives it."""
    with VideoFile(video) as reader, av.open(str(target), 'w') as writer:
        rate = reader.stream.average_rate
        stream = writer.add_stream('mjpeg', rate=rate)
        stream.width, stream.height = RepackSettings().size(*reader.size)
        stream.pix_fmt = 'yuvj420p'
        stream.codec_context.qmin = stream.codec_context.qmax = 3
        for number, frame in enumerate(reader.frames()):
            image = frame.reformat(stream.width, stream.height, 'yuvj420p')
            image.pts, image.time_base = number, 1 / rate
            writer.mux(stream.encode(image))
        writer.mux(stream.encode())


def load_ms(pipeline: list[BaseTransform], video: Path, seed: int) -> float:
    """Load two clips and return the processor time it took, in ms."""
    np.random.seed(seed)
    results = dict(filename=str(video), label=-1, start_index=0, modality='RGB')
    start = time.process_time()
    for transform in pipeline:
        results = transform(results)
    return (time.process_time() - start) * 1e3


def measure(versions: dict[str, list[Path]], rounds: int) -> dict[str, np.ndarray]:
    """Return the mean times per video in ms of every version, (rounds,)."""
    cfg = Config.fromfile(CONFIG)
    pipeline = [TRANSFORMS.build(step) for step in (cfg.open_video, cfg.sample, cfg.decode)]
    times = {name: np.zeros(rounds + 1) for name in versions}
    jobs = [(name, video) for name, files in versions.items() for video in files]
    with progress('rounds', Console(stderr=True)) as show:
        for turn in range(rounds + 1):  # the first one warms up
            for name, video in random.Random(turn).sample(jobs, len(jobs)):
                times[name][turn] += load_ms(pipeline, video, turn) / len(versions[name])
            show(turn, rounds)
    return {name: ms[1:] for name, ms in times.items()}


def result_table(versions: dict[str, list[Path]], times: dict[str, np.ndarray]) -> Table:
    """Make the table: medians over rounds, with quartiles of the ratios."""
    table = Table(
        title=f'cvrl_mm {cvrl_mm.__version__}: {len(versions[ORIGINAL])} videos, '
        f'{len(times[ORIGINAL])} rounds; median (quartiles) over rounds'
    )
    table.add_column('version')
    for heading in ('ms per video', 'x original', 'KB per frame'):
        table.add_column(heading, justify='right')
    num_frames = 0
    for video in versions[ORIGINAL]:
        with VideoFile(video) as reader:
            num_frames += reader.num_frames
    for name, ms in times.items():
        low, middle, high = np.quantile(ms / times[ORIGINAL], (0.25, 0.5, 0.75))
        size = sum(file.stat().st_size for file in versions[name]) / num_frames / 1e3
        ratio = f'{middle:.2f} ({low:.2f} to {high:.2f})'
        table.add_row(name, f'{np.median(ms):.1f}', ratio, f'{size:.2f}')
    return table


@plain_errors()
def main() -> None:
    """Encode, measure and print the table.

    Raises:
        ValueError: A video cannot be read.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', type=Path, help='encoded videos')
    parser.add_argument('--rounds', type=int, default=10, help='samples per video (%(default)s)')
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f'--rounds must be at least 1, got {args.rounds}')
    check_videos(args.videos)
    cv2.setNumThreads(1)
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        versions = write_versions(args.videos, Path(folder), CANDIDATES)
        Console().print(result_table(versions, measure(versions, args.rounds)))


if __name__ == '__main__':
    main()
