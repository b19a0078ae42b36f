"""Train a classifier of labelled videos, from a trained encoder.

VIDEOS are folders with one folder per class, or lists with lines "path label", in which the
label is a name or a number. OUT then holds classifier.pth, index.html (confusion matrix and the
worst mistakes) and report.md. The same command continues after an interruption.

Examples:
    cvrl finetune work_dirs/mine my_classes/ --out work_dirs/classifier
    cvrl finetune encoder.safetensors train.txt --val test.txt --frozen --out work_dirs/frozen
    cvrl finetune random my_classes/ --out work_dirs/random  # random weights, to compare
    cvrl finetune --out work_dirs/classifier
"""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import redirect_stdout

from .options import add_training


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    not_here = ('init', 'encoder', 'segment_seconds')
    add_training(parser, 'FinetuneOptions', '50 epochs and at least 300', not_here)
    encoder = 'folder of a training by cvrl pretrain, a weights file, "tiny" or "random"'
    parser.add_argument('encoder', nargs='?', default=None, help=encoder)
    parser.add_argument('videos', nargs='*', default=[], help='folders of class folders, or lists')
    parser.add_argument('--config-only', action='store_true', help='print the config, do not train')


def run(args: Namespace) -> None:
    """Train, or print the config."""
    from cvrl_mm.own_videos import finetune

    with redirect_stdout(sys.stderr):  # mmengine prints what it loads
        folder = finetune(**vars(args))
    if 'config_only' in args:
        print((folder / 'config.py').read_text(encoding='utf-8'), end='')
