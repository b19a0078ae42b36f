r"""Linear evaluation on cached features.

The features of several views of each video are computed once, and linear classifiers are trained on
them with several learning rates. A run that was interrupted continues where it stopped.

Example:
    python tools/linear_probe.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth
    torchrun --nproc_per_node 8 tools/linear_probe.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth --launcher pytorch
"""

import argparse

from cvrl_cli import evaluation_parser, run_tool


def run(args: argparse.Namespace) -> None:
    """Run the probe, and print the accuracies and the chosen learning rate."""
    from mmengine.dist import is_main_process

    from cvrl_mm.cli import print_warnings_only, start_evaluation
    from cvrl_mm.evaluation.linear_probe import cached_linear_probe

    cfg, out = start_evaluation(args, 'model', 'train_dataloader', 'test_dataloader')
    print_warnings_only()
    result = cached_linear_probe(cfg, args.checkpoint, out, args.train_views)
    if not is_main_process():
        return
    print(f'Linear probe ({result["protocol"]})')
    for name, title in (('train', 'train'), ('val', 'test')):
        scores = result[name]
        print(f'{title:<6} top-1 {scores["top1"]:.2%}  top-5 {scores["top5"]:.2%}')
    held_out = result['held_out_top1']
    print(
        f'Learning rate {result["lr"]:g}: the best of {len(held_out)} on training videos held out '
        f'({max(held_out.values()):.2%})'
    )


def main() -> None:
    """Read the command line and work."""
    parser = evaluation_parser(__doc__)
    views = 'augmented clips per training video (%(default)s)'
    parser.add_argument('--train-views', type=int, default=2, help=views)
    run_tool(run, parser.parse_args())


if __name__ == '__main__':
    main()
