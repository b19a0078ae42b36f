r"""Compare what ``cvrl pretrain`` learns from a list of videos with an untrained encoder.

Example:
    python tools/benchmarks/own_videos.py train.txt test.txt --out work_dirs/own --hours 0.1

The lists have lines ``path label``. The command trains on the videos of the first list, without
their labels, once per seed; options that the script does not know are passed on to it. Features are
those of ``features.npz``: the mean over 4 clips per video, here scaled to unit length. A logistic
regression on standardised features and the nearest neighbour are fitted to all videos of the first
list and tested on those of the second.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from mmengine.config import Config
from torch.nn.functional import normalize

from cvrl_mm import load_encoder
from cvrl_mm.cli import plain_errors
from cvrl_mm.datasets.lists import read_video_list
from cvrl_mm.evaluation.encoder import Encoder
from cvrl_mm.evaluation.extraction import extract_to_file
from cvrl_mm.evaluation.knn import knn_classify
from cvrl_mm.evaluation.linear_probe import linear_probe
from cvrl_mm.own_videos.report import NUM_CLIPS

PRETRAIN = Path(__file__).parents[1] / 'pretrain_videos.py'


def parse_args() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; the second value is the options of ``cvrl pretrain``."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument('train', type=Path, help='list of the videos to train on')
    parser.add_argument('test', type=Path, help='list of the videos to test on')
    parser.add_argument('--out', type=Path, required=True, help='folder for the trainings')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    return parser.parse_known_args()


def accuracies(encoder: Encoder, lists: list[Path], out: Path) -> tuple[float, float]:
    """Measure an encoder.

    Args:
        encoder: The encoder.
        lists: The lists of the training and of the test videos.
        out: File for the features of the videos.

    Returns:
        Linear and 1-nearest-neighbour accuracy on the test videos, in percent.
    """
    train, test = (
        [(str(path.parent / name), label) for name, label in read_video_list(str(path))]
        for path in lists
    )
    extract_to_file(encoder, [path for path, _ in train + test], out, NUM_CLIPS)
    with np.load(out) as stored:
        feats = dict(zip(stored['names'].tolist(), torch.from_numpy(stored['feats']), strict=True))
    data = []
    for videos in (train, test):
        data.append(normalize(torch.stack([feats[path] for path, _ in videos])))
        data.append(torch.tensor([label for _, label in videos]))
    train_feats, train_labels, test_feats, test_labels = data
    nearest = knn_classify(test_feats, train_feats, train_labels, 1)
    return 100 * linear_probe(*data), 100 * (nearest == test_labels).double().mean().item()


@plain_errors()
def main() -> None:
    """Train once per seed, and print the accuracies before and after."""
    args, options = parse_args()
    rows = []
    for seed in args.seeds:
        out = args.out / f'seed{seed}'
        command = [sys.executable, PRETRAIN, args.train, '--out', out, '--seed', str(seed)]
        subprocess.run([*command, *options], check=True)
        config = Config.fromfile(out / 'config.py')
        row: list[float] = []
        for name in ('untrained', out / 'encoder.safetensors'):
            encoder = load_encoder(name, config)
            row += accuracies(encoder, [args.train, args.test], out / f'{Path(name).stem}.npz')
        rows.append(row)
        print(f'seed {seed}: {config.train_cfg.max_iters} steps', *(f'{x:.1f}' for x in row))
    for i, what in enumerate(('linear', '1-NN')):
        before, after = ([row[i + j] for row in rows] for j in (0, 2))
        gains = [b - a for a, b in zip(before, after, strict=True)]
        print(
            f'{what}: {mean(before):.1f} untrained, {mean(after):.1f} trained, '
            f'gain {mean(gains):.1f} ({min(gains):.1f} to {max(gains):.1f})'
        )


if __name__ == '__main__':
    main()
