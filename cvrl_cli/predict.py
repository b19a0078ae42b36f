"""Classify videos with a classifier of cvrl finetune.

Examples:
    cvrl predict work_dirs/classifier video.mp4 more_videos/ list.txt
    cvrl predict work_dirs/classifier videos/ --csv > predictions.csv
    cvrl predict work_dirs/classifier long_video.mp4 --every 0.5  # and a picture of the classes
"""

import os
import sys
from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('classifier', metavar='DIR', help='folder of a training by cvrl finetune')
    parser.add_argument('videos', nargs='+', help='videos, folders or .txt lists')
    parser.add_argument('--every', type=float, help='seconds between the windows of a long video')
    form = parser.add_mutually_exclusive_group()
    form.add_argument('--json', action='store_true', help='print JSON, with all classes')
    form.add_argument('--csv', action='store_true', help='print CSV, with all classes')


def run(args: Namespace) -> None:
    """Print the classes."""
    from cvrl_mm.own_videos.predict import print_predictions

    form = 'json' if args.json else 'csv' if args.csv else 'text'
    try:
        print_predictions(args.classifier, args.videos, args.every, form)
        sys.stdout.flush()
    except BrokenPipeError:  # such as by `| head`; what is buffered must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
