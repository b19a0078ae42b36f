"""Read damaged copies of videos and count the outcomes.

Example:
    python tools/benchmarks/damaged.py videos/* --files 2000

The copies are cut, partly overwritten with zeros, or have flipped bits, in turn, at random places.
32 frames of each copy are read as in training, in a separate process, so that a crash or an endless
loop of the decoder is detected. The exit code is 1 if there was one.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import cvrl_mm
from cvrl_mm.cli import plain_errors
from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.preparation.video_check import find_faults

NUM_FRAMES = 32
ENDINGS = ('all frames', 'error', 'crash', 'no end')


def cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Keep the beginning of a file."""
    return data[: rng.integers(len(data))]


def blank(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Overwrite up to a tenth of a file with zeros."""
    start = int(rng.integers(len(data)))
    length = min(int(rng.integers(1, 2 + len(data) // 10)), len(data) - start)
    data[start : start + length] = bytes(length)
    return data


def flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Flip 1 to 100 bits anywhere in a file."""
    for bit in rng.integers(8 * len(data), size=rng.integers(1, 101)):
        data[bit // 8] ^= 1 << bit % 8
    return data


def flip_header(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Flip 1 to 20 bits in the first or last 2 KiB of a file, where containers describe it."""
    first = 0 if rng.random() < 0.5 else max(0, len(data) - 2048)
    for bit in rng.integers(8 * first, 8 * min(first + 2048, len(data)), rng.integers(1, 21)):
        data[bit // 8] ^= 1 << bit % 8
    return data


DAMAGES = (cut, blank, flip, flip_header)


def read(filename: str) -> str:
    """Read 32 frames of a video and return the outcome."""
    try:
        with VideoFile(filename) as video:
            places = np.linspace(0, video.num_frames - 1, NUM_FRAMES).astype(int)
            images = video.read(places)
    except UnreadableVideoError:
        return 'error'
    return 'all frames' if len(images) == NUM_FRAMES else f'{len(images)} frames'


def damage(videos: list[Path], folder: Path, num_files: int, seed: int) -> list[tuple[str, Path]]:
    """Write damaged copies; return the kind of damage and the path of each."""
    copies = []
    for i in range(num_files):
        rng = np.random.default_rng([seed, i])
        source, change = videos[i % len(videos)], DAMAGES[i // len(videos) % len(DAMAGES)]
        copies.append((change.__name__, folder / f'{i:06d} {change.__name__}{source.suffix}'))
        copies[-1][1].write_bytes(change(bytearray(source.read_bytes()), rng))
    return copies


@plain_errors()
def main() -> None:
    """Damage, read and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', nargs='+', type=Path, help='intact videos')
    parser.add_argument('--files', type=int, default=2000, help='damaged copies (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='seed of the damage (%(default)s)')
    parser.add_argument('--workers', type=int, default=1, help='processes (%(default)s)')
    parser.add_argument('--timeout', type=float, default=60, help='seconds per file (%(default)s)')
    args = parser.parse_args()
    counts = {change.__name__: Counter() for change in DAMAGES}
    with tempfile.TemporaryDirectory() as folder:
        copies = damage(args.videos, Path(folder), args.files, args.seed)
        paths = [str(path) for _, path in copies]
        results = find_faults(paths, args.workers, args.timeout, read)
        for i, ending in track(results, 'reading', len(paths), console=Console(stderr=True)):
            kind, path = copies[i]
            if ending.startswith('no answer'):
                ending = 'no end'
            elif ending.startswith('the decoder crashed'):
                ending = 'crash'
            if ending in ('crash', 'no end'):
                Console(stderr=True).print(
                    f'{ending}: {path.name} of {args.videos[i % len(args.videos)]}'
                )
            counts[kind][ending] += 1
    table = Table(
        title=f'cvrl_mm {cvrl_mm.__version__}: {args.files} damaged copies of '
        f'{len(args.videos)} videos'
    )
    for heading in ('damage', *ENDINGS):
        table.add_column(heading, justify='left' if heading == 'damage' else 'right')
    for kind, count in counts.items():
        table.add_row(kind, *(str(count[ending]) for ending in ENDINGS))
    Console().print(table)
    sys.exit(any(count['crash'] or count['no end'] for count in counts.values()))


if __name__ == '__main__':
    main()
