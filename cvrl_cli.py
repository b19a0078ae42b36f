"""The console command ``cvrl``.

This module is not part of the package, because importing the package takes seconds: help and
wrong arguments are answered without that import.
"""

import argparse
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

INTERRUPTED = 130  # exit status after Ctrl-C
TOOLS = {
    'features': ('extract_features.py', 'write one feature vector per video to a file'),
    'probe': ('linear_probe.py', 'train a linear classifier on frozen features'),
    'retrieval': ('retrieval.py', 'measure retrieval and k-NN with a config of lists'),
    'convert': ('convert_checkpoint.py', 'convert weights, or export an encoder to ONNX'),
    'curves': ('plot_curves.py', 'plot the curves of trainings'),
    'list': ('data/build_list.py', 'write lists of videos'),
    'check': ('data/check_videos.py', 'check that the videos of a list can be read'),
    'repack': ('data/repack.py', 'write smaller copies of videos, which load faster'),
}
TRAINING = {
    'pretrain': 'pre-train an encoder on your own videos',
    'finetune': 'train a classifier of your own classes, from an encoder',
    'predict': 'classify videos with such a classifier',
    'neighbours': 'write a page of videos beside their nearest neighbours',
}
PRETRAIN = """Pre-train a video encoder on your own videos, without labels.

The videos are opened and reported, settings are chosen and explained in OUT/config.py, and the
encoder is trained. OUT then holds encoder.safetensors, features.npz, index.html (nearest
neighbours and a map), report.md and curves.png. The same command continues after an interruption.

Examples:
    {prog} my_videos/ --out work_dirs/mine --hours 2
    {prog} --out work_dirs/mine

Several GPUs: torchrun --nproc_per_node=4 --no-python {prog} my_videos/ --out work_dirs/mine
"""
FINETUNE = """Train a classifier of labelled videos, from a trained encoder.

VIDEOS are folders with one folder per class, or lists with lines "path label", in which the label
is a name or a number. OUT then holds classifier.pth, index.html (confusion matrix and the worst
mistakes) and report.md. The same command continues after an interruption.

Examples:
    cvrl finetune work_dirs/mine my_classes/ --out work_dirs/classifier
    cvrl finetune encoder.safetensors train.txt --val test.txt --frozen --out work_dirs/classifier
    cvrl finetune --out work_dirs/classifier
"""
PREDICT = """Classify videos with a classifier of cvrl finetune.

Examples:
    cvrl predict work_dirs/classifier video.mp4 more_videos/ list.txt
    cvrl predict work_dirs/classifier videos/ --csv > predictions.csv
    cvrl predict work_dirs/classifier long_video.mp4 --every 0.5    # and a picture of the classes
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
    cvrl probe work_dirs/mine --labels labels.txt  # lines "name label"
    cvrl probe work_dirs/mine --labels train.txt --test test.txt  # your own split
    cvrl probe work_dirs/mine --groups 'person([0-9]+)'  # test on other persons
    cvrl probe CONFIG.py CHECKPOINT                # the lists of a config: tools/linear_probe.py

Without --test each fifth of the videos is tested once. Videos of the lists that the training has
not used are encoded.
"""
DOCTOR = """Check the installation, the machine and a config; each line is ok or gives advice.

Examples:
    cvrl doctor
    cvrl doctor --config configs/cvrl/pretrain_k400.py --ranks 8

Exit code: 0, or 1 if there is a problem. A note describes something that works, but with a
limitation.
"""
SETTINGS: dict[str, tuple[type, str]] = {
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
    'seed': (int, 'of all random draws (0)'),
}
SEGMENT = float, 'longer files count as several videos of this length (30)'
SWITCHES = {
    'flip': 'do not mirror clips: where left and right matter',
    'colour': 'do not change colours or brightness: where they matter',
    'zoom': 'crops keep at least 80 %% of the area instead of 30 %%: where the subject is small',
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand.

    Args:
        arguments: Those of the command line, without the program's name.

    Raises:
        SystemExit: An error of the user, or (status 130) Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog='cvrl', description='CVRL: learn video representations without labels.'
    )
    parser.add_argument('--version', action='version', version=f'cvrl_mm {version("cvrl_mm")}')
    commands = parser.add_subparsers(dest='command', metavar='COMMAND', required=True)
    for name, text in TRAINING.items():
        commands.add_parser(name, help=text, add_help=False)
    for name, (_, text) in TOOLS.items():
        commands.add_parser(name, help=text, add_help=False)
    commands.add_parser('doctor', help='check the installation', add_help=False)
    if not given:
        parser.print_help()
        raise SystemExit(2)
    command = parser.parse_known_args(given[:1])[0].command
    # With a config in place of OUT, "probe" is the tool
    is_tool = command in TOOLS and any(argument.endswith('.py') for argument in given[1:])
    if command in COMMANDS and not is_tool:
        COMMANDS[command](given[1:])
        return
    tool = Path(__file__).with_name('cvrl_mm') / '.mim/tools' / TOOLS[command][0]
    sys.argv = [f'cvrl {command}', *given[1:]]
    runpy.run_path(str(tool), run_name='__main__')  # which calls run_tool()


def pretrain(arguments: Sequence[str], prog: str = 'cvrl pretrain') -> None:
    """Run ``cvrl pretrain``; ``prog`` is the name of the program in its help."""

    def run(videos: list[str], out: str, **options: Any) -> None:
        from cvrl_mm.own_videos import pretrain

        pretrain(videos, out, **options)

    _train(pretrain_parser(prog), arguments, run)


def finetune(arguments: Sequence[str]) -> None:
    """Run ``cvrl finetune``."""

    def run(videos: list[str], out: str, **options: Any) -> None:
        from cvrl_mm.own_videos import finetune

        folder = finetune(videos=videos, out=out, **options)
        if options.get('config_only'):
            print((folder / 'config.py').read_text(encoding='utf-8'), end='')

    _train(finetune_parser(), arguments, run)


def _train(
    parser: argparse.ArgumentParser, arguments: Sequence[str], train: Callable[..., None]
) -> None:
    """Run a command that trains in an output folder, and say how to continue after Ctrl-C."""
    args = parser.parse_args(arguments)

    def can_continue() -> bool:
        return any((Path(args.out) / name).is_file() for name in ('config.py', 'command.json'))

    if not args.videos and not can_continue():
        parser.error(f'{args.out} holds no training to continue; name videos')
    sys.argv[0] = parser.prog
    try:
        run_tool(lambda args: train(**vars(args)), args)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            hint = f'To continue: {parser.prog} --out {args.out}'
            print(hint if can_continue() else 'Nothing is written yet.', file=sys.stderr)
        raise


def pretrain_parser(prog: str) -> argparse.ArgumentParser:
    """Make the parser of ``cvrl pretrain``."""
    parser = _training_parser(prog, PRETRAIN.format(prog=prog), '100 epochs and at least 2000')
    parser.add_argument(
        'videos', nargs='*', default=[], help='videos, folders (searched recursively), .txt lists'
    )
    parser.add_argument(
        '--init',
        help='checkpoint to start from; its architecture is kept (default: random weights)',
    )
    parser.add_argument(
        '--encoder',
        choices=ENCODERS,
        help='tiny and small are for a CPU (by machine, time and number of videos)',
    )
    kind, text = SEGMENT
    parser.add_argument('--segment-seconds', type=kind, help=text)
    return parser


def finetune_parser() -> argparse.ArgumentParser:
    """Make the parser of ``cvrl finetune``."""
    parser = _training_parser('cvrl finetune', FINETUNE, '50 epochs and at least 300')
    encoder = 'folder of a training by cvrl pretrain, or a weights file'
    parser.add_argument('encoder', nargs='?', default=None, help=encoder)
    parser.add_argument('videos', nargs='*', default=[], help='folders of class folders, or lists')
    parser.add_argument('--val', help='held-out videos (default: 30 %% of each class)')
    parser.add_argument('--frozen', action='store_true', help='train only the linear layer')
    parser.add_argument('--config-only', action='store_true', help='print the config, do not train')
    return parser


def _training_parser(prog: str, text: str, length: str) -> argparse.ArgumentParser:
    """Make a parser with the options of all commands that train."""
    parser = _parser(prog, text, argument_default=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument('--out', required=True, help='folder for everything that is written')
    group = parser.add_argument_group(
        f'length of the training, one of (default: {length} steps)'
    ).add_mutually_exclusive_group()
    group.add_argument('--hours', type=float, help='time to train, without inspection and report')
    group.add_argument('--epochs', type=int, help='passes over the videos')
    group.add_argument('--steps', type=int, help='steps')
    settings = parser.add_argument_group('settings (by default chosen as said in parentheses)')
    for name, (kind, help_text) in SETTINGS.items():
        settings.add_argument(f'--{name}', type=kind, help=help_text)
    augmentation = parser.add_argument_group('augmentation')
    for name, help_text in SWITCHES.items():
        augmentation.add_argument(f'--no-{name}', dest=name, action='store_false', help=help_text)
    return parser


def predict(arguments: Sequence[str]) -> None:
    """Run ``cvrl predict DIR VIDEO...``."""
    sys.argv[0] = 'cvrl predict'
    parser = _parser(sys.argv[0], PREDICT)
    parser.add_argument('classifier', metavar='DIR', help='folder of a training by cvrl finetune')
    parser.add_argument('videos', nargs='+', help='videos, folders or .txt lists')
    parser.add_argument('--every', type=float, help='seconds between the windows of a long video')
    form = parser.add_mutually_exclusive_group()
    form.add_argument('--json', action='store_true', help='print JSON, with all classes')
    form.add_argument('--csv', action='store_true', help='print CSV, with all classes')

    def run(args: argparse.Namespace) -> None:
        from cvrl_mm.own_videos.results import print_predictions

        form = 'json' if args.json else 'csv' if args.csv else 'text'
        print_predictions(args.classifier, args.videos, args.every, form)

    run_tool(run, parser.parse_args(arguments))


def neighbours(arguments: Sequence[str]) -> None:
    """Run ``cvrl neighbours OUT``."""
    parser = _parser_of_training('neighbours', NEIGHBOURS)
    parser.add_argument('--videos', nargs='+', default=[], help='other videos to look for')
    parser.add_argument('--rows', type=int, default=12, help='videos shown (%(default)s)')
    parser.add_argument('--neighbours', type=int, default=5, help='of each (%(default)s)')

    def run(args: argparse.Namespace) -> None:
        from cvrl_mm.own_videos.page import show_neighbours

        page, notes = show_neighbours(args.out, args.videos, args.rows, args.neighbours)
        print(*notes, f'Open {page} in a browser.', sep='\n')

    run_tool(run, parser.parse_args(arguments))


def probe(arguments: Sequence[str]) -> None:
    """Run ``cvrl probe OUT``."""
    parser = _parser_of_training('probe', PROBE)
    parser.add_argument('--labels', help='list with lines "name label" (default: the folders)')
    parser.add_argument('--test', help='such a list of test videos; --labels are then for training')
    parser.add_argument(
        '--groups',
        metavar='PATTERN',
        help='regular expression with one group: videos whose names have the same text there, '
        'such as a person or a recording, are never in both parts',
    )

    def run(args: argparse.Namespace) -> None:
        from cvrl_mm.io import printable
        from cvrl_mm.own_videos.probe import probe_labels

        results, notes = probe_labels(args.out, args.labels, args.test, args.groups)
        *notes, verdict = notes
        print(*map(printable, notes), sep='\n')
        for found in zip(*results.values(), strict=True):
            values = ', '.join(
                f'{x.value:.1f} {when}' for when, x in zip(results, found, strict=True)
            )
            print(f'{found[0].title}: {values}; chance {found[0].chance:.1f}')
        print(verdict)

    run_tool(run, parser.parse_args(arguments))


def doctor(arguments: Sequence[str]) -> None:
    """Run ``cvrl doctor``."""
    parser = _parser('cvrl doctor', DOCTOR)
    parser.add_argument('--config', help='config of a training to check')
    parser.add_argument('--ranks', type=int, help='processes of the training (one per GPU)')
    args = parser.parse_args(arguments)
    if args.ranks is not None and args.ranks < 1:
        parser.error(f'--ranks must be at least 1, got {args.ranks}')

    def run(args: argparse.Namespace) -> None:
        from cvrl_mm.doctor import report

        raise SystemExit(report(args.config, args.ranks))

    sys.argv[0] = 'cvrl doctor'
    run_tool(run, args)


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = dict(
    pretrain=pretrain,
    finetune=finetune,
    predict=predict,
    neighbours=neighbours,
    probe=probe,
    doctor=doctor,
)


def _parser(prog: str | None, text: str | None, **given: Any) -> argparse.ArgumentParser:
    """Make a parser that keeps the line breaks of its description."""
    kind = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=prog, description=text, formatter_class=kind, **given)


def _parser_of_training(command: str, text: str) -> argparse.ArgumentParser:
    """Make the parser of a command that takes the folder of a training."""
    sys.argv[0] = f'cvrl {command}'
    parser = _parser(sys.argv[0], text)
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    return parser


def run_tool(run: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    """Run a tool after its arguments have been parsed.

    Args:
        run: The tool.
        args: Its arguments.

    Raises:
        SystemExit: An error of the user, with its message, or (status 130) Ctrl-C.
    """
    try:
        from cvrl_mm.cli import plain_errors  # takes seconds, which --help need not wait for

        with plain_errors():
            run(args)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def evaluation_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the common arguments of ``retrieval.py`` and ``linear_probe.py``."""
    parser = _parser(None, description)
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


if __name__ == '__main__':
    main()
