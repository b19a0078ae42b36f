r"""Evaluate retrieval of training videos by test videos, and k-NN classification.

The features of a video are averaged over the clips of the config's feature_pipeline, 10 in
configs/linear. A run that was interrupted continues where it stopped.

Example:
    python tools/retrieval.py configs/linear/linear_ucf101_split1.py \
        work_dirs/pretrain_k400/epoch_800.pth
    torchrun --nproc_per_node 8 tools/retrieval.py configs/linear/linear_k400.py \
        work_dirs/pretrain_k400/epoch_800.pth --launcher pytorch
"""

from mmengine.dist import is_main_process

import cvrl_mm  # noqa: F401
from cvrl_mm.command_line import plain_errors
from cvrl_mm.evaluation.evaluation_arguments import evaluation_parser, start_evaluation
from cvrl_mm.evaluation.retrieval import retrieval


@plain_errors()
def main() -> None:
    """Compare the videos and print the numbers."""
    args = evaluation_parser(__doc__).parse_args()
    cfg, out = start_evaluation(
        args, 'model', 'train_dataloader', 'test_dataloader', 'feature_pipeline'
    )
    result = retrieval(cfg, args.checkpoint, out)
    if is_main_process():
        test, train = cfg.test_dataloader.dataset.ann_file, cfg.train_dataloader.dataset.ann_file
        print(f'Queries: {test}, gallery: {train}')
        numbers = {k: v for k, v in result.items() if isinstance(v, float)}
        print('  '.join(f'{name} {value:.2%}' for name, value in numbers.items()))


if __name__ == '__main__':
    main()
