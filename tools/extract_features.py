r"""Write pooled features of videos to a file: one vector a video, averaged over its clips.

Examples:
    python tools/extract_features.py r3d50_k400_released.pth videos/ -o feats.npz
    python tools/extract_features.py epoch_800.pth val.txt --root data/kinetics400/videos_val \
        -o feats.parquet --config configs/cvrl/pretrain_k400.py

    data = np.load('feats.npz'); data['names'], data['feats']  # (V,), (V, 2048)
"""

import argparse
import os

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.utils.data import DataLoader

import cvrl_mm  # noqa: F401  registers the transforms
from cvrl_mm.command_line import plain_errors, read_config
from cvrl_mm.evaluation.encoder import load_encoder
from cvrl_mm.evaluation.feature_file import FeatureFile
from cvrl_mm.evaluation.video_files import VideoFiles, find_videos


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('checkpoint', help='converted, or of a run (then with --config)')
    parser.add_argument('videos', nargs='+', help='videos, folders of them, lists in .txt')
    parser.add_argument('-o', '--out', required=True, help='a file .npz or .parquet')
    parser.add_argument('--config', help='the config that the checkpoint was trained with')
    parser.add_argument('--root', help="what lists' paths are relative to (the list's folder)")
    for name, default, text in (
        ('clip-len', 32, 'frames of a clip'),
        ('frame-interval', 2, "distance of a clip's frames"),
        ('num-clips', 10, 'clips of a video'),
        ('size', 256, 'side of the crop in pixels'),
        ('batch-size', 2, 'videos at a time'),
        ('workers', min(4, os.cpu_count()), 'processes that decode, 0 for none'),
    ):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'{text} (%(default)s)')
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    parser.add_argument('--device', default=device, help='where to compute (%(default)s)')
    return parser.parse_args()


def extract(args: argparse.Namespace) -> dict[str, str]:
    """Write the file; return the videos that could not be read, and why."""
    paths = find_videos(args.videos, args.root)
    config = None
    if args.config is not None:
        config = read_config(args.config, 'model')
    encoder = load_encoder(args.checkpoint, config).to(args.device)
    clips = VideoFiles(paths, args.clip_len, args.frame_interval, args.num_clips, args.size)
    loader = DataLoader(clips, args.batch_size, num_workers=args.workers, collate_fn=list)
    failed = {}
    columns = [TextColumn('videos'), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with FeatureFile(args.out) as file, Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task('', total=len(paths))
        for samples in loader:
            failed.update({paths[s['index']]: s['error'] for s in samples if 'error' in s})
            readable = [s for s in samples if 'inputs' in s]
            if readable:
                clips = torch.cat([s['inputs'] for s in readable])
                feats = encoder.features(clips).unflatten(0, (len(readable), -1)).mean(1)
                names = [paths[s['data_samples'].gt_label.item()] for s in readable]
                file.append(names, feats.cpu().numpy())
            bar.advance(task, len(samples))
    if not file.names:
        raise ValueError(f'None of the videos can be read; the first one: {failed[paths[0]]}')
    return failed


@plain_errors()
def main() -> None:
    """Extract, and list at the end what could not be read."""
    args = parse_args()
    failed = extract(args)
    for path, reason in failed.items():
        print(f'unreadable: {path}: {reason}')
    if failed:
        print(f'{len(failed)} unreadable, left out of {args.out}.')


if __name__ == '__main__':
    main()
