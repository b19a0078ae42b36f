"""The console command ``cvrl``.

This module is not part of the package, because importing the package takes seconds. It prints help
and reports wrong arguments without that import. The tools import the package only after they have
parsed their arguments.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

INTERRUPTED = 130  # exit code of a program that Ctrl-C ended
TOOLS = {
    'features': ('extract_features.py', 'write one feature vector per video to a file'),
    'neighbours': ('show_neighbours.py', 'write a page of videos beside their nearest neighbours'),
    'probe': ('linear_probe.py', 'train a linear classifier on frozen features'),
    'retrieval': ('retrieval.py', 'measure retrieval and k-NN with a config of lists'),
    'convert': ('convert_checkpoint.py', 'convert weights, or export an encoder to ONNX'),
    'curves': ('plot_curves.py', 'plot the curves of trainings'),
    'list': ('data/build_list.py', 'write lists of videos'),
    'check': ('data/check_videos.py', 'check that the videos of a list can be read'),
    'repack': ('data/repack.py', 'write smaller copies of videos, which load faster'),
}
DESCRIPTION = """Pre-train a video encoder on your own videos, without labels.

The videos are opened and reported, settings are chosen and explained in OUT/config.py, and the
encoder is trained. OUT then holds encoder.safetensors, features.npz, index.html (nearest
neighbours and a map), report.md and curves.png. The same command continues after an interruption.

Examples:
    {prog} my_videos/ --out work_dirs/mine --hours 2
    {prog} --out work_dirs/mine

Several GPUs: torchrun --nproc_per_node=4 --no-python {prog} my_videos/ --out work_dirs/mine
"""
ENCODERS = ('tiny', 'small', 'r3d18', 'r3d50')
NEIGHBOURS = """Write a page of videos beside their nearest neighbours.

Examples:
    cvrl neighbours work_dirs/mine                       # held-out videos of the training
    cvrl neighbours work_dirs/mine --videos new_videos/  # other videos, among those of the training
"""
PROBE = """Measure how well classes can be told from the features, before and after training.

Examples:
    cvrl probe work_dirs/mine                      # the videos' folders are the classes
    cvrl probe work_dirs/mine --labels labels.txt  # lines "name label", label a number from 0
    cvrl probe work_dirs/mine --labels train.txt --test test.txt  # your own split

Without --test the videos are split at random, 20 times.
"""
NUMBERS = {
    'clip-len': (int, 'frames per clip (16 on a GPU, 8 on a CPU)'),
    'frame-interval': (int, 'distance between frames of a clip (by length and rate of the videos)'),
    'size': (
        int,
        'side of the frames that the encoder sees, in pixels (CPU: 64; GPU: 112 or 224, by the '
        'encoder; less for small videos)',
    ),
    'batch-size': (
        int,
        'videos per step on each device (by the number of videos; at most 128, CPU: 32)',
    ),
    'lr': (float, 'learning rate (0.004 for 64 videos per step)'),
    'workers': (int, 'processes per device that load videos, 0 for none (by the cores)'),
}
SWITCHES = {
    'flip': 'do not mirror clips: where left and right matter',
    'colour': 'do not change colours or brightness: where they matter',
    'zoom': 'crops keep at least 80 %% of the area instead of 30 %%: where the subject is small',
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand.

    Args:
        arguments: Of the command line, without the program's name.

    Raises:
        SystemExit: an error of the user, or (status 130) Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog='cvrl', description='CVRL: learn video representations without labels.'
    )
    parser.add_argument('--version', action='store_true', help='print the version and exit')
    commands = parser.add_subparsers(dest='command', metavar='COMMAND')
    commands.add_parser('pretrain', help='pre-train an encoder on your own videos', add_help=False)
    for name, (_, text) in TOOLS.items():
        commands.add_parser(name, help=text, add_help=False)
    commands.add_parser('doctor', help='check the installation', add_help=False)
    args, _ = parser.parse_known_args(given[:1])
    if args.version:
        print(f'cvrl_mm {version("cvrl_mm")}')
        return
    if args.command is None:
        parser.print_help()
        raise SystemExit(2)
    try:
        if args.command == 'pretrain':
            pretrain(given[1:])
        elif args.command in OF_TRAININGS and not _names_config(given[1:]):
            OF_TRAININGS[args.command](given[1:])
        else:
            _run(args.command, given[1:])
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def pretrain(arguments: Sequence[str], prog: str = 'cvrl pretrain') -> None:
    """Run ``cvrl pretrain``.

    Args:
        arguments: Those after the subcommand.
        prog: What the help calls the program.

    Raises:
        SystemExit: a mistake of the user, or Ctrl-C.
    """
    parser = pretrain_parser(prog)
    args = vars(parser.parse_args(arguments))
    out = args['out']
    if not args['videos'] and not _holds_training(out):
        parser.error(f'{out} holds no training to continue; name videos')
    sys.argv[0] = prog
    try:
        from cvrl_mm.command_line import plain_errors

        with plain_errors():
            from cvrl_mm.own_videos import pretrain as run

            run(args.pop('videos'), args.pop('out'), **args)
    except KeyboardInterrupt:
        hint = f'To continue: {prog} --out {out}'
        if not _holds_training(out):
            hint = 'Nothing is written yet; give the same command again.'
        print(f'\nInterrupted. {hint}', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def _holds_training(out: str) -> bool:
    """Tell whether a folder holds a training that ``--out`` alone continues."""
    return any((Path(out) / name).is_file() for name in ('config.py', 'command.json'))


def neighbours(arguments: Sequence[str]) -> None:
    """Run ``cvrl neighbours OUT``.

    Args:
        arguments: Those after the subcommand.
    """
    parser = _parser_of_training('neighbours', NEIGHBOURS)
    parser.add_argument('--videos', nargs='+', default=[], help='other videos to look for')
    parser.add_argument('--rows', type=int, default=12, help='videos shown (%(default)s)')
    parser.add_argument('--neighbours', type=int, default=5, help='of each (%(default)s)')
    run_tool(_neighbours, parser.parse_args(arguments))


def _neighbours(args: argparse.Namespace) -> None:
    from cvrl_mm.own_videos.neighbours import show_neighbours

    page, notes = show_neighbours(args.out, args.videos, args.rows, args.neighbours)
    for note in notes:
        print(note)
    print(f'Open {page} in a browser.')


def probe(arguments: Sequence[str]) -> None:
    """Run ``cvrl probe OUT``.

    Args:
        arguments: Those after the subcommand.
    """
    parser = _parser_of_training('probe', PROBE)
    parser.add_argument('--labels', help='list with lines "name label" (default: the folders)')
    parser.add_argument('--test', help='such a list of test videos; --labels are then for training')
    run_tool(_probe, parser.parse_args(arguments))


def _probe(args: argparse.Namespace) -> None:
    from cvrl_mm.own_videos.label_probe import probe_labels

    results, notes = probe_labels(args.out, args.labels, args.test)
    print(*notes, sep='\n')
    for measures in zip(*results.values(), strict=True):
        values = ', '.join(
            f'{measure} {when}' for when, measure in zip(results, measures, strict=True)
        )
        print(f'{measures[0].title} (%): {values}; chance {measures[0].chance:.1f}')


OF_TRAININGS = {'neighbours': neighbours, 'probe': probe}


def _names_config(arguments: Sequence[str]) -> bool:
    """Return whether the arguments are those of the tool, which takes a config."""
    return any(argument.endswith('.py') for argument in arguments)


def _parser_of_training(command: str, text: str) -> argparse.ArgumentParser:
    """Make the parser of a command that takes the folder of a training."""
    sys.argv[0] = f'cvrl {command}'
    tool = f'With a config in place of OUT the command is tools/{TOOLS[command][0]}: '
    parser = argparse.ArgumentParser(
        prog=f'cvrl {command}',
        description=text,
        epilog=f'{tool}cvrl {command} CONFIG.py --help',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    return parser


def pretrain_parser(prog: str) -> argparse.ArgumentParser:
    """Make the parser of ``cvrl pretrain``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=DESCRIPTION.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument(
        'videos', nargs='*', default=[], help='videos, folders (searched recursively), .txt lists'
    )
    parser.add_argument('--out', required=True, help='folder for everything that is written')
    parser.add_argument(
        '--init',
        help='checkpoint to start from; its architecture is kept (default: random weights)',
    )
    length = parser.add_argument_group(
        'length of the training, one of (default: 100 epochs and at least 2000 steps)'
    ).add_mutually_exclusive_group()
    length.add_argument('--hours', type=float, help='time to train, without inspection and report')
    length.add_argument('--epochs', type=int, help='passes over the videos')
    length.add_argument('--steps', type=int, help='steps')
    group = parser.add_argument_group('settings (by default chosen as said in parentheses)')
    group.add_argument(
        '--encoder',
        choices=ENCODERS,
        help='tiny and small are for a CPU (by machine, time and number of videos)',
    )
    for name, (kind, text) in NUMBERS.items():
        group.add_argument(f'--{name}', type=kind, help=text)
    group.add_argument(
        '--segment-seconds',
        type=float,
        help='longer files count as several videos of this length (30)',
    )
    group.add_argument('--seed', type=int, help='of all random draws (0)')
    augmentation = parser.add_argument_group('augmentation')
    for name, text in SWITCHES.items():
        augmentation.add_argument(f'--no-{name}', dest=name, action='store_false', help=text)
    return parser


def run_tool(run: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    """Run a tool after its arguments have been parsed.

    Args:
        run: The tool.
        args: Its arguments.

    Raises:
        SystemExit: an error of the user, with its message, or (status 130) Ctrl-C.
    """
    try:
        # The import takes seconds, which --help need not wait for.
        from cvrl_mm.command_line import plain_errors

        with plain_errors():
            run(args)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def evaluation_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the common arguments of ``retrieval.py`` and ``linear_probe.py``.

    Args:
        description: Description of the tool; its line breaks are kept.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='config of configs/linear, compare or miniature')
    parser.add_argument(
        'checkpoint', help='file with backbone weights, or "untrained" for random weights'
    )
    parser.add_argument('--out', type=Path, help='output folder (<checkpoint>_<config>)')
    parser.add_argument(
        '--launcher',
        choices=('none', 'pytorch', 'slurm'),
        default='none',
        help='how several processes are started (%(default)s)',
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action='extend',
        default=[],
        metavar='KEY=VALUE',
        help='changes of the config',
    )
    return parser


def _run(command: str, arguments: Sequence[str]) -> None:
    """Run another subcommand as a program of its own name."""
    sys.argv = [f'cvrl {command}', *arguments]
    if command == 'doctor':
        from cvrl_mm.doctor.__main__ import main as doctor

        raise SystemExit(doctor(arguments, 'cvrl doctor'))
    spec = find_spec('cvrl_mm')
    if spec is None or spec.origin is None:
        raise SystemExit('cvrl: the package cvrl_mm is not installed')
    _run_tool(command, Path(spec.origin).parent / '.mim' / 'tools')


def _run_tool(command: str, tools: Path) -> None:
    """Run a tool whose help shows ``cvrl COMMAND`` in place of ``python tools/NAME.py``."""
    name = TOOLS[command][0]
    path = tools / name
    source = path.read_text(encoding='utf-8').replace(f'python tools/{name}', f'cvrl {command}')
    source = source.replace(f' tools/{name}', f' --no-python cvrl {command}')  # torchrun
    module, main = ModuleType('__main__'), sys.modules['__main__']
    module.__file__ = str(path)
    sys.modules['__main__'] = module
    try:
        exec(compile(source, str(path), 'exec'), vars(module))
    finally:
        sys.modules['__main__'] = main
