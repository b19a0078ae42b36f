r"""Evaluate retrieval of training videos by test videos, and k-NN classification.

The features of a video are averaged over the clips of the config's feature_pipeline, 10 in
configs/linear. A run that was interrupted continues where it stopped.

Example:
    python tools/retrieval.py configs/linear/linear_ucf101_split1.py \
        work_dirs/pretrain_k400/epoch_800.pth
    torchrun --nproc_per_node 8 tools/retrieval.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth --launcher pytorch
"""

import argparse
from pathlib import Path

from mmengine.config import DictAction
from mmengine.dist import init_dist, is_main_process

import cvrl_mm  # noqa: F401
from cvrl_mm.command_line import plain_errors, read_config
from cvrl_mm.engine.terminal_log import print_warnings_only
from cvrl_mm.evaluation.frozen_features import SECONDS_TO_WAIT, default_out
from cvrl_mm.evaluation.retrieval import retrieval


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='config of configs/linear, compare or miniature')
    parser.add_argument(
        'checkpoint', help='file with backbone weights, or "untrained" for random weights'
    )
    parser.add_argument('--out', type=Path, help='output folder (<checkpoint>_<config>)')
    parser.add_argument(
        '--launcher',
        choices=('none', 'pytorch', 'slurm'),
        default='none',
        help='how several processes are started (%(default)s)',
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        default={},
        metavar='KEY=VALUE',
        help='changes of the config',
    )
    return parser.parse_args()


@plain_errors()
def main() -> None:
    """Compare the videos and print the numbers."""
    args = parse_args()
    cfg = read_config(
        args.config, 'model', 'train_dataloader', 'test_dataloader', 'feature_pipeline'
    )
    cfg.merge_from_dict(args.cfg_options)
    if args.launcher != 'none':
        init_dist(args.launcher, timeout=SECONDS_TO_WAIT)
    print_warnings_only()
    out = args.out or default_out(args.config, args.checkpoint)
    result = retrieval(cfg, args.checkpoint, out)
    if is_main_process():
        test, train = cfg.test_dataloader.dataset.ann_file, cfg.train_dataloader.dataset.ann_file
        print(f'Queries: {test}, gallery: {train}')
        numbers = {k: v for k, v in result.items() if isinstance(v, float)}
        print('  '.join(f'{name} {value:.2%}' for name, value in numbers.items()))


if __name__ == '__main__':
    main()
