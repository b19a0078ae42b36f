"""The console command ``cvrl``.

This module is not part of the package, because importing the package takes seconds: help and
wrong arguments are answered without that import.
"""

import argparse
import inspect
import os
import runpy
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

started_as: str | None = None  # the command that runs a tool, such as "cvrl repack"
INTERRUPTED, PREEMPTED = 130, 75  # exit status after Ctrl-C, and after SIGTERM in a training
TOOLS = {
    'features': ('extract_features.py', 'write one feature vector per video to a file'),
    'convert': ('convert_checkpoint.py', 'convert weights, or export an encoder to ONNX'),
    'curves': ('plot_curves.py', 'plot the curves of trainings'),
    'list': ('data/build_list.py', 'write lists of videos'),
    'check': ('data/check_videos.py', 'check that the videos of a list can be read'),
    'repack': ('data/repack.py', 'write smaller copies of videos, which load faster'),
}
ENCODERS = ('tiny', 'small', 'r3d18', 'r3d50')
SETTINGS: dict[str, tuple[type, str]] = {
    'clip-len': (int, 'frames per clip (16 on a GPU, 8 on a CPU)'),
    'frame-interval': (int, 'distance between frames of a clip (by length and rate of the videos)'),
    'size': (
        int,
        'side of the frames that the encoder sees, in pixels (by the encoder: 48 to 224, on a CPU '
        'at most 64; less for small videos)',
    ),
    'batch-size': (
        int,
        'videos per step on each device (by the number of videos; at most 48 to 128)',
    ),
    'lr': (float, 'learning rate (for 48 videos per step: 0.004, r3d18 and r3d50: 0.0005)'),
    'workers': (int, 'processes per device that load videos, 0 for none (by the cores)'),
    'seed': (int, 'of all random draws (0)'),
}
GROUPS = (
    'regular expression with one group: videos whose names have the same text there, such as a '
    'person or a recording, are never in both parts'
)
SWITCHES = {
    'flip': 'do not mirror clips: where left and right matter',
    'colour': 'do not change colours or brightness: where they matter',
    'zoom': 'crops keep at least 80 %% of the area, not 30 or 40 %%: where the subject is small',
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand.

    Args:
        arguments: Those of the command line, without the program's name.

    Raises:
        SystemExit: An error of the user, or (status 130) Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = ArgumentParser(
        prog='cvrl', description='CVRL: learn video representations without labels.'
    )
    parser.add_argument('--version', action='version', version=f'cvrl_mm {version("cvrl_mm")}')
    commands = parser.add_subparsers(metavar='COMMAND', required=True)
    for name, (text, add_arguments) in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=text,
            description=inspect.getdoc(add_arguments),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_arguments(command)
    for name, (_, text) in TOOLS.items():
        commands.add_parser(name, help=text, add_help=False)
    if not given:
        parser.print_help()
        raise SystemExit(2)
    if given[0] not in commands.choices:
        parser.parse_args(given)  # --help, --version or a mistake
    command = commands.choices[given[0]]
    sys.argv = [command.prog, *given[1:]]
    if given[0] in TOOLS:
        import cvrl_cli  # the one that the tool imports

        cvrl_cli.started_as = command.prog
        tool = Path(__file__).with_name('cvrl_mm') / '.mim/tools' / TOOLS[given[0]][0]
        runpy.run_path(str(tool), run_name='__main__')  # which calls run_tool()
        return
    args = command.parse_args(given[1:])
    run = vars(args).pop('run')
    trains = given[0] in ('pretrain', 'finetune')
    note = Path(args.out, 'command.json') if trains else Path()
    if trains and not args.videos and not note.is_file():
        command.error(f'{args.out} holds no training to continue; name videos')
    try:
        run_tool(run, args)
    except SystemExit as leaving:
        if trains and leaving.code in (INTERRUPTED, PREEMPTED):
            hint = f'To continue: {command.prog} --out {args.out}'
            print(hint if note.is_file() else 'Nothing is written yet.', file=sys.stderr)
        raise


def pretrain(parser: ArgumentParser) -> None:
    """Pre-train a video encoder on your own videos, without labels.

    The videos are opened and reported, settings are chosen and explained in OUT/config.py, and the
    encoder is trained. OUT then holds encoder.safetensors, features.npz, index.html (nearest
    neighbours and a map), report.md and curves.png. The same command continues after an
    interruption.

    Examples:
        cvrl pretrain my_videos/ --out work_dirs/mine --hours 2
        cvrl pretrain --out work_dirs/mine

    Several GPUs:
        torchrun --nproc_per_node=4 --no-python cvrl pretrain my_videos/ --out work_dirs/mine
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos import pretrain

        pretrain(**vars(args))

    parser.set_defaults(run=run)
    _add_training(parser, '100 epochs and at least 400, from random weights 2000')
    parser.add_argument(
        'videos', nargs='*', default=[], help='videos, folders (searched recursively), .txt lists'
    )
    parser.add_argument(
        '--init',
        help='checkpoint to start from, whose architecture is kept, or "random" for random weights '
        '(tiny: the weights of this package, others: random)',
    )
    parser.add_argument(
        '--encoder',
        choices=ENCODERS,
        help='tiny and small have few channels (by machine and number of videos)',
    )
    parser.add_argument(
        '--segment-seconds',
        type=float,
        help='longer files count as several videos of this length (30)',
    )


def finetune(parser: ArgumentParser) -> None:
    """Train a classifier of labelled videos, from a trained encoder.

    VIDEOS are folders with one folder per class, or lists with lines "path label", in which the
    label is a name or a number. OUT then holds classifier.pth, index.html (confusion matrix and the
    worst mistakes) and report.md. The same command continues after an interruption.

    Examples:
        cvrl finetune work_dirs/mine my_classes/ --out work_dirs/classifier
        cvrl finetune encoder.safetensors train.txt --val test.txt --frozen --out work_dirs/frozen
        cvrl finetune untrained my_classes/ --out work_dirs/random    # random weights, to compare
        cvrl finetune --out work_dirs/classifier
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos import finetune

        with redirect_stdout(sys.stderr):  # mmengine prints what it loads
            folder = finetune(**vars(args))
        if 'config_only' in args:
            print((folder / 'config.py').read_text(encoding='utf-8'), end='')

    parser.set_defaults(run=run)
    _add_training(parser, '50 epochs and at least 300', with_defaults=False)
    encoder = 'folder of a training by cvrl pretrain, a weights file, "tiny" or "untrained"'
    parser.add_argument('encoder', nargs='?', default=None, help=encoder)
    parser.add_argument('videos', nargs='*', default=[], help='folders of class folders, or lists')
    parser.add_argument('--val', help='held-out videos (default: 30 %% of each class)')
    parser.add_argument('--frozen', action='store_true', help='train only the linear layer')
    parser.add_argument('--config-only', action='store_true', help='print the config, do not train')


def _add_training(parser: ArgumentParser, length: str, with_defaults: bool = True) -> None:
    """Add the options of all commands that train; options that are not given have no value."""
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument('--out', required=True, help='folder for everything that is written')
    group = parser.add_argument_group(
        f'length of the training, one of (default: {length} steps)'
    ).add_mutually_exclusive_group()
    group.add_argument('--hours', type=float, help='time to train, without inspection and report')
    group.add_argument('--epochs', type=int, help='passes over the videos')
    group.add_argument('--steps', type=int, help='steps')
    chosen = 'as said in parentheses' if with_defaults else 'for the encoder and the videos'
    settings = parser.add_argument_group(f'settings (by default chosen {chosen})')
    for name, (kind, help_text) in SETTINGS.items():
        shown = help_text if with_defaults else help_text.partition(' (')[0]
        settings.add_argument(f'--{name}', type=kind, help=shown)
    settings.add_argument(
        '--no-cache',
        dest='cache',
        action='store_false',
        help='decode each sample from its file (by default decoded frames are stored in OUT until '
        'the end of the training, where this pays)',
    )
    augmentation = parser.add_argument_group('augmentation')
    for name, help_text in SWITCHES.items():
        augmentation.add_argument(f'--no-{name}', dest=name, action='store_false', help=help_text)


def predict(parser: ArgumentParser) -> None:
    """Classify videos with a classifier of cvrl finetune.

    Examples:
        cvrl predict work_dirs/classifier video.mp4 more_videos/ list.txt
        cvrl predict work_dirs/classifier videos/ --csv > predictions.csv
        cvrl predict work_dirs/classifier long_video.mp4 --every 0.5  # and a picture of the classes
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos.predict import print_predictions

        form = 'json' if args.json else 'csv' if args.csv else 'text'
        try:
            print_predictions(args.classifier, args.videos, args.every, form)
            sys.stdout.flush()
        except BrokenPipeError:  # such as by `| head`; what is buffered must not fail again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    parser.set_defaults(run=run)
    parser.add_argument('classifier', metavar='DIR', help='folder of a training by cvrl finetune')
    parser.add_argument('videos', nargs='+', help='videos, folders or .txt lists')
    parser.add_argument('--every', type=float, help='seconds between the windows of a long video')
    form = parser.add_mutually_exclusive_group()
    form.add_argument('--json', action='store_true', help='print JSON, with all classes')
    form.add_argument('--csv', action='store_true', help='print CSV, with all classes')


def neighbours(parser: ArgumentParser) -> None:
    """Write a page of videos beside their nearest neighbours.

    Examples:
        cvrl neighbours work_dirs/mine                       # held-out videos of the training
        cvrl neighbours work_dirs/mine --videos new_videos/  # others, among the training's
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos.page import show_neighbours

        page, notes = show_neighbours(**vars(args))
        print(*notes, f'Open {page} in a browser.', sep='\n')

    parser.set_defaults(run=run)
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('--videos', nargs='+', default=[], help='other videos to look for')
    parser.add_argument('--rows', type=int, default=12, help='videos shown (%(default)s)')
    parser.add_argument('--neighbours', type=int, default=5, help='of each (%(default)s)')


def evaluate(parser: ArgumentParser) -> None:
    """Evaluate the features of a frozen encoder by a protocol.

    Protocols:
        knn        weighted vote of the nearest training videos
        retrieval  is one of the k nearest training videos of the same class? (R@k)
        logistic   logistic regression, for small sets
        linear     linear classifier with the paper's schedule and five learning rates
        few_shot   5-way classification by prototypes of 1 and 5 videos, over 10,000 episodes

    The videos are the training and test lists of a config, or those of --labels: a list with lines
    "path label", a folder of class folders, or the folder of a training by cvrl pretrain (by
    default ENCODER). Without --test each fifth of the videos is tested once.

    Examples:
        cvrl evaluate linear epoch_800.pth --config configs/linear/linear_k400.py
        cvrl evaluate few_shot encoder.safetensors --labels my_classes/
        cvrl evaluate knn encoder.safetensors --labels train.txt --test test.txt
        cvrl evaluate logistic work_dirs/mine  # the folders of its videos are the classes
    """

    def run(args: Namespace) -> None:
        if args.config is not None:
            if args.labels or args.test or args.groups:
                raise ValueError('--config names the videos; leave out --labels, --test, --groups.')
            evaluate_by_config(args, args.protocol)
        elif args.labels or Path(args.checkpoint).is_dir():
            _evaluate_labels(args)
        else:
            raise ValueError('Name labelled videos (--labels), or a config with lists (--config).')

    parser.set_defaults(run=run)
    parser.add_argument('protocol', metavar='PROTOCOL', help='see above')
    parser.add_argument('checkpoint', metavar='ENCODER', help='file, folder or address of weights')
    parser.add_argument('--labels', help='labelled videos: see above')
    parser.add_argument('--test', help='likewise; the videos of --labels are then for training')
    parser.add_argument('--groups', metavar='PATTERN', help=GROUPS)
    parser.add_argument('--num-clips', type=int, default=10, help='per video (%(default)s)')
    parser.add_argument('--config', help='config of configs/linear, compare or miniature')
    _add_config_options(parser.add_argument_group('with --config'))


def evaluate_by_config(args: Namespace, *protocols: str) -> None:
    """Evaluate a checkpoint on the lists of a config, and print the results."""
    from mmengine.dist import is_main_process

    from cvrl_mm.evaluation.protocols import evaluate_config
    from cvrl_mm.runtime import print_warnings_only, start_evaluation

    cfg, out = start_evaluation(args, 'model', 'train_dataloader', 'test_dataloader')
    print_warnings_only()
    result = evaluate_config(protocols, cfg, args.checkpoint, out, args.train_views)
    if is_main_process():
        datasets = cfg.test_dataloader.dataset, cfg.train_dataloader.dataset
        print('Test: {}, training: {}'.format(*(x.ann_file for x in datasets)))
        _print_values(result, result['interval95'])


def _evaluate_labels(args: Namespace) -> None:
    from mmengine.device import get_device
    from rich.console import Console

    from cvrl_mm.encoder.encoder import load_encoder
    from cvrl_mm.evaluation.protocols import evaluate_labels, intervals, means
    from cvrl_mm.processes import usable_cores
    from cvrl_mm.progress import progress
    from cvrl_mm.runtime import print_warnings_only
    from cvrl_mm.text import printable

    print_warnings_only()
    encoder = load_encoder(args.checkpoint).to(get_device())
    source = args.labels or args.checkpoint
    given = args.protocol, encoder, source, args.test, args.groups, args.num_clips
    with progress('videos', Console(stderr=True)) as on_progress:
        values, notes = evaluate_labels(*given, min(4, usable_cores()), on_progress)
    print(*map(printable, notes), sep='\n')
    _print_values(means(values), intervals(values))


def _print_values(values: Mapping[str, Any], intervals: Mapping[str, float]) -> None:
    """Print means with their 95 % intervals, and other numbers and texts."""
    for name, value in values.items():
        if name in intervals:
            print(f'{name} {value:.2%} ± {100 * intervals[name]:.2f}')
        elif name != 'interval95':
            print(f'{name} {value:g}' if isinstance(value, float) else f'{name}: {value}')


def probe(parser: ArgumentParser) -> None:
    """Measure how well classes can be told from the features, before and after a training.

    Examples:
        cvrl probe work_dirs/mine                      # the videos' folders are the classes
        cvrl probe work_dirs/mine --labels labels.txt  # lines "name label"
        cvrl probe work_dirs/mine --labels train.txt --test test.txt  # your own split
        cvrl probe work_dirs/mine --groups 'person([0-9]+)'  # test on other persons

    Without --test each fifth of the videos is tested once. If a list has videos that the training
    has not used, its videos are encoded. cvrl evaluate does the same for one encoder, with more
    protocols.
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos.report import probe
        from cvrl_mm.text import printable

        results, notes = probe(**vars(args))
        *notes, verdict = notes
        print(*map(printable, notes), sep='\n')
        for found in zip(*results.values(), strict=True):
            values = ', '.join(
                f'{x.value:.1f} {when}' for when, x in zip(results, found, strict=True)
            )
            print(f'{found[0].title}: {values}; chance {found[0].chance:.1f}')
        print(verdict)

    parser.set_defaults(run=run)
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('--labels', help='list with lines "name label" (default: the folders)')
    parser.add_argument('--test', help='such a list of test videos; --labels are then for training')
    parser.add_argument('--groups', metavar='PATTERN', help=GROUPS)


def push(parser: ArgumentParser) -> None:
    """Share an encoder: a new, private repository on the Hugging Face hub.

    It gets the encoder, its config, the report, the page, which shows frames of your videos, and a
    model card, in which the licence is to be filled in. Log in first: hf auth login.

    Examples:
        cvrl push work_dirs/mine USER/NAME

    In Python: encoder = cvrl_mm.load_encoder('hf://USER/NAME')
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.own_videos.card import push

        address = push(**vars(args))
        print(f'{address} is private: fill in its model card, then change this in its settings.')

    parser.set_defaults(run=run)
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('name', metavar='USER/NAME', help='name of the repository')


def doctor(parser: ArgumentParser) -> None:
    """Check the installation, the machine and a config; each line is ok or gives advice.

    Examples:
        cvrl doctor
        cvrl doctor --config configs/cvrl/pretrain_k400.py --ranks 8

    Exit code: 0, or 1 if there is a problem. A note describes something that works, but with a
    limitation.
    """

    def run(args: Namespace) -> None:
        from cvrl_mm.doctor import report

        raise SystemExit(report(args.config, args.ranks))

    parser.set_defaults(run=run)
    parser.add_argument('--config', help='config of a training to check')
    parser.add_argument('--ranks', type=_positive, help='processes of the training (one per GPU)')


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f'must be at least 1, got {text}')
    return int(text)


# The docstring of each function is the help of its command
COMMANDS: dict[str, tuple[str, Callable[[ArgumentParser], None]]] = dict(
    pretrain=('pre-train an encoder on your own videos', pretrain),
    finetune=('train a classifier of your own classes, from an encoder', finetune),
    predict=('classify videos with such a classifier', predict),
    neighbours=('write a page of videos beside their nearest neighbours', neighbours),
    probe=('measure what such a training has learned, with labels', probe),
    evaluate=('evaluate the features of an encoder', evaluate),
    push=('share an encoder on the Hugging Face hub', push),
    doctor=('check the installation', doctor),
)


def tool_parser(description: str | None) -> ArgumentParser:
    """Make the parser of a tool, whose help names the command that the user has given."""
    kind = argparse.RawDescriptionHelpFormatter
    return ArgumentParser(prog=started_as, description=description, formatter_class=kind)


def run_tool(run: Callable[[Namespace], None], args: Namespace) -> None:
    """Run a tool after its arguments have been parsed.

    Args:
        run: The tool.
        args: Its arguments.

    Raises:
        SystemExit: An error of the user, with its message, or (status 130) Ctrl-C.
    """
    try:
        from cvrl_mm.runtime import plain_errors  # takes seconds, which --help need not wait for
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    with plain_errors():
        run(args)


def evaluation_parser(description: str | None) -> ArgumentParser:
    """Make the parser of ``retrieval.py`` and ``linear_probe.py``."""
    parser = tool_parser(description)
    parser.add_argument('config', help='config of configs/linear, compare or miniature')
    parser.add_argument(
        'checkpoint', help='file with backbone weights, or "untrained" for random weights'
    )
    _add_config_options(parser)
    return parser


def _add_config_options(parser: Any) -> None:
    """Add the options of evaluations by a config."""
    parser.add_argument('--out', type=Path, help='output folder (<checkpoint>_<config>)')
    parser.add_argument(
        '--train-views',
        type=int,
        default=2,
        help='augmented clips per training video, for linear (%(default)s)',
    )
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


if __name__ == '__main__':
    main()
