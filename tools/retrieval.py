r"""Evaluate retrieval of training videos by test videos, and k-NN classification.

The features of a video are averaged over the clips of the config's feature_pipeline, 10 in
configs/linear. A run that was interrupted continues where it stopped. The same as
``cvrl evaluate retrieval CHECKPOINT --config CONFIG`` and ``knn``.

Example:
    python tools/retrieval.py configs/linear/linear_ucf101_split1.py \
        work_dirs/pretrain_k400/epoch_800.pth
    torchrun --nproc_per_node 8 tools/retrieval.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth --launcher pytorch
"""

from cvrl_cli import evaluate_by_config, evaluation_parser, run_tool

if __name__ == '__main__':
    args = evaluation_parser(__doc__).parse_args()
    run_tool(lambda given: evaluate_by_config(given, 'retrieval', 'knn'), args)
