"""Pre-train a video encoder on your own videos, without labels.

The videos are opened and reported, settings are chosen and explained in OUT/config.py, and the
encoder is trained. OUT then holds encoder.safetensors, features.npz, index.html (nearest
neighbours and a map), report.md and curves.png. The same command continues after an
interruption.

Examples:
    cvrl pretrain my_videos/ --out work_dirs/mine
    cvrl pretrain --out work_dirs/mine

Several GPUs:
    torchrun --nproc_per_node=4 --no-python cvrl pretrain my_videos/ --out work_dirs/mine
"""

from argparse import ArgumentParser, Namespace

from .options import add_training


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    add_training(parser, 'Options', '100 epochs and at least 400, from random weights 2000')
    parser.add_argument(
        'videos', nargs='*', default=[], help='videos, folders (searched recursively), .txt lists'
    )


def run(args: Namespace) -> None:
    """Train."""
    from cvrl_mm.own_videos import pretrain

    pretrain(**vars(args))
