r"""Linear evaluation on cached features: ``cvrl evaluate linear CHECKPOINT --config CONFIG``.

The features of several views of each video are computed once, and linear classifiers are trained on
them with several learning rates. A run that was interrupted continues where it stopped.

Example:
    python tools/linear_probe.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth
    torchrun --nproc_per_node 8 tools/linear_probe.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth --launcher pytorch
"""

from cvrl_cli import evaluate_by_config, evaluation_parser, run_tool

if __name__ == '__main__':
    args = evaluation_parser(__doc__).parse_args()
    run_tool(lambda given: evaluate_by_config(given, 'linear'), args)
