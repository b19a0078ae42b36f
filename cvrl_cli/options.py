"""Options of several commands, made from the dataclasses that they fill."""

import argparse
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from runpy import run_path
from typing import Any, get_args

# The file alone, without the package, whose import takes seconds
CLASSES = run_path(str(Path(__file__).parents[1] / 'cvrl_mm/options.py'))
GROUPS = (
    'regular expression with one group: videos whose names have the same text there, such as a '
    'person or a recording, are never in both parts'
)


def add_training(
    parser: ArgumentParser, options: str, length: str, but: Sequence[str] = ()
) -> None:
    """Add the options of a training; options that are not given have no value.

    Args:
        parser: The parser of the command.
        options: Name of their class in ``cvrl_mm/options.py``.
        length: Length of the training by default.
        but: Fields that are no options of this command.
    """
    parser.argument_default = SUPPRESS
    parser.add_argument('--out', required=True, help='folder for everything that is written')
    title = f'length of the training, one of (default: {length} steps)'
    groups = dict(
        length=parser.add_argument_group(title).add_mutually_exclusive_group(),
        settings=parser.add_argument_group(
            'settings (by default chosen by the videos and the machine)'
        ),
        augmentation=parser.add_argument_group('augmentation'),
    )
    for field in fields(CLASSES[options]):
        if field.name not in but:
            text = field.metadata['help']
            if options != 'Options':
                text = text.partition(' (')[0]
            add_field(groups[field.metadata.get('group', 'settings')], field, text)


def add_field(parser: Any, field: Any, text: str, default: Any = SUPPRESS) -> None:
    """Add the option of a field with this help; ``--no-NAME`` for a switch that is on."""
    flag, text = field.name.replace('_', '-'), text.replace('%', '%%')
    if field.type is bool:
        flag, action = (f'no-{flag}', 'store_false') if field.default else (flag, 'store_true')
        parser.add_argument(f'--{flag}', dest=field.name, action=action, default=default, help=text)
        return
    kind = (*get_args(field.type), field.type)[0]  # of "int | None" it is int
    more = dict(choices=field.metadata.get('choices'), default=default)
    parser.add_argument(f'--{flag}', type=kind, help=text, **more)


def positive(text: str) -> int:
    """Parse a positive integer."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f'must be at least 1, got {text}')
    return int(text)
