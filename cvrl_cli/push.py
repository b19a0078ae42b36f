"""Share an encoder: a new, private repository on the Hugging Face hub.

It gets the encoder, its config, the report, the page, which shows frames of your videos, and a
model card, in which the licence is to be filled in. Log in first: hf auth login.

Examples:
    cvrl push work_dirs/mine USER/NAME

In Python: encoder = cvrl_mm.load_encoder('hf://USER/NAME')
"""

from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('name', metavar='USER/NAME', help='name of the repository')


def run(args: Namespace) -> None:
    """Share it."""
    from cvrl_mm.own_videos.card import push

    address = push(**vars(args))
    print(f'{address} is private: fill in its model card, then change this in its settings.')
