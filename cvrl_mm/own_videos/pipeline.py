"""Pre-train on a user's own videos: inspection, settings, training and results."""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from os.path import abspath
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dist import (
    barrier,
    broadcast_object_list,
    get_world_size,
    init_dist,
    is_distributed,
    is_main_process,
)
from mmengine.utils import is_list_of
from rich.console import Console

from ..cli import read_config
from ..datasets.lists import check_not_empty, check_sources
from ..engine.checkpoint_files import is_whole
from ..io import cores_per_process, local_processes, locked, progress, replacing, usable_cores
from .config_file import INIT, render
from .encoding import copy_start
from .inspection import Inspection, inspect
from .lists import write_lists
from .memory import choose_memory, usable_bytes
from .network import Network
from .options import Options, check_config
from .settings import Machine, Setting, choose, choose_steps, remarks
from .trained import COMMAND, check_no_subfolder
from .training import (
    final_checkpoint,
    has_begun,
    prepare_process,
    time_step,
    train,
    trained_steps,
)

ALONE_SECONDS = 7 * 24 * 3600  # rank 0 inspects and encodes all videos while the others wait
console = Console(stderr=True, highlight=False, soft_wrap=True)


def run(sources: Sequence[str | Path], out: str | Path, **options: Any) -> Path:
    """Implement :func:`cvrl_mm.pretrain`. All ranks must call this function."""
    if not str(out):
        raise ValueError('out must be the path of the output folder.')
    check_not_empty(sources)
    folder = Path(out).resolve()
    if options.get('init') is not None:
        options['init'] = _absolute(options['init'])
    with ExitStack() as locks:
        _run(folder, sources, Options(**options), locks)
    return folder


def _run(folder: Path, sources: Sequence, chosen: Options, locks: ExitStack) -> None:
    cores = usable_cores()
    prepare_process(cores)
    config_file = folder / 'config.py'
    found, start = None, None
    # Before init_dist: processes that are forked beside the threads of a process group can hang.
    if os.environ.get('RANK', '0') == '0':
        if not _has_checkpoint(folder):
            check_sources(sources)  # before anything is written
        _check_folder(folder, sources)
        locks.enter_context(locked(folder))
        sources, chosen = _prepare_folder(folder, sources, chosen)
        if not config_file.is_file():
            start = _copy_start(chosen.init, folder)  # fails early, before all videos are opened
            found = _inspect(folder, sources, cores)
    if 'RANK' in os.environ and not is_distributed():
        backend = 'nccl' if torch.cuda.is_available() else 'gloo'
        init_dist('pytorch', backend=backend, timeout=ALONE_SECONDS)
    # The other ranks do not look at the files, which rank 0 may be replacing
    shared: list[Any] = [chosen, found is not None]
    broadcast_object_list(shared)
    chosen, is_new = shared
    if is_new:
        _write_config(folder, found, start, chosen)
    cfg = read_config(config_file, 'model', 'train_cfg', 'train_dataloader', 'work_dir')
    check_config(cfg)
    if Path(cfg.work_dir).resolve() != folder / 'training':
        raise ValueError(
            f'{config_file} trains in {cfg.work_dir}. If {folder} is a copy of another folder, or '
            'was moved, replace the path of the other folder by the new one in this file.'
        )
    steps = cfg.train_cfg.max_iters
    if trained_steps(cfg) > steps:
        raise ValueError(
            f'{trained_steps(cfg)} steps are trained already, and {config_file} asks for {steps}; '
            'set max_iters in this file to at least this number.'
        )
    if is_whole(final_checkpoint(cfg)):
        _say(f'The training is finished ({steps} steps).')
    else:
        if has_begun(cfg):
            _say(f'Continuing the training of {steps} steps.')
        train(config_file)
    if is_main_process():
        from .results import write_results  # with scikit-learn and matplotlib

        if _is_newer(folder / 'report.md', final_checkpoint(cfg)):
            _say(f'The report exists already; remove {folder / "report.md"} to write it again.')
        else:
            note = folder / COMMAND
            stored = _read_note(note)['options'] if note.is_file() else {}
            write_results(folder, cfg, console, stored.get('init'))
        _say(f'Open {folder / "index.html"} in a browser. The numbers are in report.md beside it.')
        _say(f'In Python: encoder = cvrl_mm.load_encoder({str(folder)!r})')
    _wait()


def _absolute(init: str | Path) -> str:
    """Make a path absolute, as the command may be continued from another folder."""
    if not isinstance(init, str | Path) or not str(init):
        raise ValueError(f'init must be the path of a checkpoint, got {init!r}.')
    return str(init) if '://' in str(init) else abspath(init)


def _copy_start(init: str | None, folder: Path) -> Network | None:
    """Copy the weights of ``--init``, if it is given."""
    if init is None:
        return None
    try:
        return copy_start(init, folder / INIT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f'--init {init} cannot be used: {error} If the file does not describe its '
            'architecture, convert it first: cvrl convert encoder … --config CONFIG.'
        ) from error


def _inspect(folder: Path, sources: Sequence, cores: int) -> Inspection:
    """Open all videos and print a report."""
    with progress('Opening videos', console) as on_progress:
        found = inspect(sources, cores, on_progress)
    for line in found.describe():
        _say(line)
    found.write(folder / 'videos.tsv')
    return found


def _write_config(
    folder: Path, found: Inspection | None, start: Network | None, options: Options
) -> None:
    """Choose the settings and write the config; only the main process has ``found``."""
    ranks = get_world_size()
    trial = folder / '.trial_config.py'
    if found is not None:
        machine = Machine(cores_per_process(), ranks, torch.cuda.is_available())
        plan = choose(found, options, machine, start)
        windows = plan['window_frames']
        write_lists(found, plan.train, plan.watched, windows, folder / 'lists')
        plan.settings['steps'] = Setting(1000, 'not known yet')
        plan.settings['memory'] = Setting({}, 'not known yet')
        trial.write_text(render(found, plan, options), encoding='utf-8')
        memory = choose_memory(Config.fromfile(trial), usable_bytes(local_processes()))
        plan.settings['memory'] = memory
        trial.write_text(render(found, plan, options), encoding='utf-8')
    _wait()
    seconds = float('nan')
    if options.epochs is None and options.steps is None:
        if is_main_process():
            _say('Measuring the time per step …')
        seconds = time_step(trial)
    if found is not None:
        batch = plan['batch_size'] * ranks
        plan.settings['steps'] = choose_steps(plan, options, batch, seconds)
        for name, setting in plan.settings.items():
            if setting.value not in (None, {}):
                _say(f'  {name.replace("_", " "):15}{setting.value!s:8} {setting.reason}')
        for remark in remarks(plan, options):
            _say(remark)
        with replacing(folder / 'config.py') as part:
            part.write_text(render(found, plan, options), encoding='utf-8')
        trial.unlink()
        _say(f'Settings and their reasons: {folder / "config.py"}')
    _wait()


def _check_folder(folder: Path, sources: Sequence) -> None:
    """Check that the output folder can be used, and create it.

    Raises:
        ValueError: The folder contains other files, its path contains three quotes, a backslash or
            two braces, it is the subfolder of the checkpoints of another output folder, or there
            are neither videos nor a training.
    """
    if any(text in folder.as_posix() for text in ("'''", '\\', '{{')):
        raise ValueError(
            f"The path {folder} contains ''', a backslash or {{{{, and mmengine cannot read a "
            'config in such a folder; choose another folder.'
        )
    check_no_subfolder(folder)
    ours = (folder / COMMAND).is_file() or (folder / 'config.py').is_file()
    if not ours and not sources:
        raise ValueError(f'{folder} holds no training to continue; give the videos to train on.')
    # .command.PID.json is left behind if a process is killed while it writes the command
    names = (path.name for path in folder.glob('*'))
    others = [name for name in names if name != 'lock' and not name.startswith('.command.')]
    if not ours and others:
        raise ValueError(f'{folder} holds other files; choose a new folder.')
    folder.mkdir(parents=True, exist_ok=True)


def _prepare_folder(folder: Path, sources: Sequence, options: Options) -> tuple[Sequence, Options]:
    """Compare the stored command of the folder with this one, or store this one.

    If the folder contains no checkpoint yet, for example after a mistake in the options, the new
    options replace the stored ones. Without videos and options, the stored ones are used.

    Returns:
        The videos to inspect and the options to use if there is no config.

    Raises:
        ValueError: The folder contains a training with other videos or options, or with unknown
            ones while videos or options are given.
    """
    asked: dict[str, Any] = dict(
        videos=[abspath(source) for source in sources], options=asdict(options)
    )
    note, config = folder / COMMAND, folder / 'config.py'
    if config.is_file() and not note.is_file():
        if sources or options != Options():
            raise ValueError(
                f'{folder} holds a training, but no {COMMAND} with its videos and options to '
                'compare these with. Give only --out to continue it, or another --out for a new '
                'training.'
            )
        return sources, options
    if note.is_file() and (config.is_file() or not sources):
        stored = _read_note(note)
        changes = _changes(stored, asked, options)
        if config.is_file() and not changes:
            return sources, options
        if config.is_file() and _has_checkpoint(folder):
            raise ValueError(
                f'{folder} holds a training with {"; ".join(changes)}. Give another --out for a '
                'new training, or only --out to continue this one. To change its settings, edit '
                f'{config}.'
            )
        config.unlink(missing_ok=True)
        if not sources and options == Options():
            return stored['videos'], Options(**stored['options'])
        asked['videos'] = asked['videos'] or stored['videos']
    with replacing(note) as part:
        part.write_text(json.dumps(asked, indent=2) + '\n', encoding='utf-8')
    return asked['videos'], options


def _read_note(note: Path) -> dict:
    """Read the stored command."""
    try:
        stored = json.loads(note.read_text(encoding='utf-8'))
        Options(**stored['options'])
        if not is_list_of(stored['videos'], str):
            raise TypeError('videos must be a list of paths.')
        return dict(videos=stored['videos'], options=stored['options'])
    except (ValueError, KeyError, TypeError) as error:
        advice = f'Remove it; then cvrl pretrain --out {note.parent} continues the training.'
        if not note.with_name('config.py').is_file():
            advice = (
                'No training has begun; give the videos and options again: cvrl pretrain VIDEOS '
                f'--out {note.parent}.'
            )
        raise ValueError(f'{note} is damaged. {advice}') from error


def _changes(stored: dict, asked: dict, options: Options) -> list[str]:
    """Describe differences from the stored command, if videos or options are given."""
    changes = []
    if asked['videos'] and asked['videos'] != stored['videos']:
        changes.append(f'the videos {", ".join(stored["videos"])}')
    if options != Options():
        for name, value in asked['options'].items():
            before = stored['options'].get(name)
            if before != value:
                changes.append(f'{name}={before} in place of {value}')
    return changes


def _has_checkpoint(folder: Path) -> bool:
    return any((folder / 'training').glob('*.pth'))


def _is_newer(path: Path, other: Path) -> bool:
    return path.is_file() and path.stat().st_mtime_ns >= other.stat().st_mtime_ns


def _say(text: str) -> None:
    if is_main_process():
        console.print(text, markup=False)


def _wait() -> None:
    if is_distributed():
        barrier()
