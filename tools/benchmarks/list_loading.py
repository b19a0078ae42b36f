"""Measure processor time and memory of a long list of videos.

Example:
    python tools/benchmarks/list_loading.py --lines 10000000
    python tools/benchmarks/list_loading.py --lines 1000000 --stock    # MMAction2's dataset

The peak of the memory does not include the imports.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

from mmaction.datasets import VideoDataset

from cvrl_cli import make_parser
from cvrl_mm.datasets import VideoListDataset

NAME = 'some_class_{0:03d}/dQw4w9WgXcQ_{1:08d}.mp4'


def peak_bytes() -> int:
    """Return the peak of the resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == 'darwin' else peak * 1024


def main() -> None:
    """Write a list like Kinetics', build a dataset, and print what it took."""
    parser = make_parser(__doc__)
    parser.add_argument('--lines', type=int, default=10_000_000, help='(%(default)s)')
    parser.add_argument('--stock', action='store_true', help="measure MMAction2's VideoDataset")
    args = parser.parse_args()
    cls, options = (VideoDataset, {}) if args.stock else (VideoListDataset, dict(max_missing=1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'list.txt'
        with path.open('w') as file:
            file.writelines(f'{NAME.format(i % 400, i)} {i % 400}\n' for i in range(args.lines))
        before, start = peak_bytes(), time.process_time()
        prefix = dict(video='data/kinetics/videos_train')  # there are no such files
        dataset = cls(str(path), [], data_prefix=prefix, **options)
    seconds, gigabytes = time.process_time() - start, (peak_bytes() - before) / 1e9
    print(f'{cls.__name__}, {len(dataset):,} lines: {seconds:.2f} s, {gigabytes:.2f} GB at most')


if __name__ == '__main__':
    main()
