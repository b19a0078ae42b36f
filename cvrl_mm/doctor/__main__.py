"""Check an installation, the machine and a config; each line is ok or gives advice.

Example:
    python -m cvrl_mm.doctor
    python -m cvrl_mm.doctor --config configs/cvrl/pretrain_k400.py --ranks 8

Exit code: 0, or 1 if there is a problem. A note describes something that works, but with a
limitation.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.logging import MMLogger
from rich.console import Console

from cvrl_mm.command_line import read_config

from .finding import Finding
from .learning_rate import check_learning_rate
from .loader import check_loader
from .machine import check_gpus, check_memory, check_open_files, check_shared_memory
from .stack import check_breakages, check_compiled
from .versions import check_versions
from .video import check_video

COLOURS = dict(ok='green', note='yellow', problem='red')
PROG = 'python -m cvrl_mm.doctor'


def main(argv: Sequence[str] | None = None, prog: str = PROG) -> int:
    """Print the report.

    Args:
        argv: Arguments of the command line.
        prog: Name of the program in the help.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=str(__doc__).replace(PROG, prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--config', help='config of a training run to check')
    ranks = max(torch.cuda.device_count(), 1)
    parser.add_argument(
        '--ranks', type=int, default=ranks, help='number of processes of the training (%(default)s)'
    )
    args = parser.parse_args(argv)
    if args.ranks < 1:
        parser.error(f'--ranks must be at least 1, got {args.ranks}')
    config = None
    if args.config is not None:
        try:
            config = read_config(args.config, 'train_dataloader', 'optim_wrapper')
        except (OSError, ValueError) as error:
            parser.error(str(error))
    register_all_modules()
    MMLogger.get_current_instance().setLevel('ERROR')  # only the report is displayed
    findings = examine(config, args.ranks)
    console = Console(soft_wrap=True, highlight=False)
    for finding in findings:
        console.print(str(finding), style=COLOURS[finding.status], markup=False)
    count = Counter(finding.status for finding in findings)
    console.print(f'ok: {count["ok"]}, notes: {count["note"]}, problems: {count["problem"]}')
    return int(count['problem'] > 0)


def examine(config: Config | None, ranks: int) -> list[Finding]:
    """Run all checks; those of a config only if there is one."""
    findings = [
        *check_versions(),
        *check_compiled(),
        *check_breakages(),
        *check_gpus(),
        *check_shared_memory(config, ranks),
        *check_video(),
    ]
    if config is not None:
        findings += [
            check_learning_rate(config, ranks),
            *check_memory(config),
            check_open_files(config),
            check_loader(config, ranks),
        ]
    return findings


if __name__ == '__main__':
    sys.exit(main())
