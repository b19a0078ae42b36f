"""The console command ``cvrl``.

Each command is a module here, with ``add_arguments`` and ``run``; its docstring is the command's
help. The functions that work are in ``cvrl_mm``. It is imported by ``run`` alone, because that
takes seconds: help and wrong arguments are answered without it.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path

INTERRUPTED, PREEMPTED = 130, 75  # exit status after Ctrl-C, and after SIGTERM in a training
COMMANDS = dict(
    pretrain='pre-train an encoder on your own videos',
    finetune='train a classifier of your own classes, from an encoder',
    predict='classify videos with such a classifier',
    neighbours='write a page of videos beside their nearest neighbours',
    probe='measure what such a training has learned, with labels',
    evaluate='evaluate the features of an encoder',
    features='write one feature vector per video to a file',
    convert='convert weights, or export an encoder to ONNX',
    push='share an encoder on the Hugging Face hub',
    list='write lists of videos',
    check='check that videos can be read',
    repack='write smaller copies of videos, which load faster',
    train='train with a config',
    test='test a checkpoint with a config',
    curves='plot the curves of trainings',
    doctor='check the installation',
)
OWN_TRAININGS, WITH_CONFIG = ('pretrain', 'finetune'), ('train', 'test')


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        arguments: Those of the command line, without the program's name.

    Raises:
        SystemExit: An error of the user, or (status 130) Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else [*arguments]
    for stream in (sys.stdout, sys.stderr):
        # Not a code page, in which names could not be printed
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ('utf-8', 'utf8'):
            stream.reconfigure(encoding='utf-8')
    if not given or given[0] not in COMMANDS:
        parser = ArgumentParser(
            prog='cvrl', description='CVRL: learn video representations without labels.'
        )
        parser.add_argument('--version', action='version', version=f'cvrl_mm {version("cvrl_mm")}')
        commands = parser.add_subparsers(metavar='COMMAND', required=True)
        for name, text in COMMANDS.items():
            commands.add_parser(name, help=text)
        if not given:
            parser.print_help()
            raise SystemExit(2)
        parser.parse_args(given)  # --help, --version or a mistake
    name, *given = given
    command = import_module(f'.{name}', __name__)
    sys.argv = [f'cvrl {name}', *given]
    if name in WITH_CONFIG:
        command.run()
        return
    parser = make_parser(command.__doc__, f'cvrl {name}')
    command.add_arguments(parser)
    args = parser.parse_args(given)
    note = Path(args.out, 'command.json') if name in OWN_TRAININGS else Path()
    if name in OWN_TRAININGS and not args.videos and not note.is_file():
        parser.error(f'{args.out} holds no training to continue; name videos')
    try:
        from cvrl_mm.runtime import plain_errors  # takes seconds, which --help need not wait for

        with plain_errors():
            command.run(args)
    except (KeyboardInterrupt, SystemExit) as leaving:
        code = getattr(leaving, 'code', INTERRUPTED)  # Ctrl-C during the import has none
        if name in OWN_TRAININGS and code in (INTERRUPTED, PREEMPTED):
            hint = f'To continue: {parser.prog} --out {args.out}'
            print(hint if note.is_file() else 'Nothing is written yet.', file=sys.stderr)
        raise SystemExit(code) from leaving


def make_parser(text: str | None, program: str | None = None) -> ArgumentParser:
    """Make an argument parser whose help starts with a text, with its line breaks.

    Args:
        text: Docstring of the command or tool.
        program: Name of the program. Default: that of the script.
    """
    kind = RawDescriptionHelpFormatter
    return ArgumentParser(program, description=text, formatter_class=kind, allow_abbrev=False)
