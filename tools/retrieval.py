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

from cvrl_cli import evaluation_parser, run_tool


def run(args: argparse.Namespace) -> None:
    """Compare the videos and print the numbers."""
    from mmengine.dist import is_main_process

    from cvrl_mm.cli import print_warnings_only, start_evaluation
    from cvrl_mm.evaluation.knn import retrieval

    cfg, out = start_evaluation(
        args, 'model', 'train_dataloader', 'test_dataloader', 'feature_pipeline'
    )
    print_warnings_only()
    result = retrieval(cfg, args.checkpoint, out)
    if is_main_process():
        test, train = cfg.test_dataloader.dataset.ann_file, cfg.train_dataloader.dataset.ann_file
        print(f'Queries: {test}, gallery: {train}')
        numbers = {k: v for k, v in result.items() if isinstance(v, float)}
        print('  '.join(f'{name} {value:.2%}' for name, value in numbers.items()))


def main() -> None:
    """Read the command line and work."""
    run_tool(run, evaluation_parser(__doc__).parse_args())


if __name__ == '__main__':
    main()
