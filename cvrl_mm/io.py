"""What every room uses: atomic files, locks, printable names, ranks and cores, progress bars."""

import hashlib
import html
import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from mmengine.logging import print_log
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RATE_FILE = 'fps.txt'  # frames per second of folders of frames
PART = '.part'  # in the name of a file that is being written
# Control characters, line separators, changes of the direction of text, undecodable bytes
UNPRINTABLE = re.compile('[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Write a file under a temporary name, and rename it to ``path`` at the end of the block.

    If the block raises, the temporary file is removed and an existing file is not changed.

    Args:
        path: The file to write. Its folder must exist.

    Yields:
        The temporary path: an empty file in the same folder, with the same suffix as ``path``.

    Raises:
        ValueError: ``path`` exists and is not a regular file.
        OSError: The file cannot be written, for example because the disk is full.
    """
    path = Path(path)
    check_target(path)
    # Not predictable, so that nobody can prepare a link of this name
    part = path.with_name(f'.{path.stem}.{secrets.token_hex(8)}{PART}{path.suffix}')
    try:
        part.touch(exist_ok=False)
        mode = part.stat().st_mode  # as the umask has it; safetensors makes a file of its own
        yield part
        part.chmod(mode)
        with part.open('rb+') as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.filename is None:  # such as on a full disk
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Refuse to replace a folder or a device, such as /dev/null, by a file.

    Raises:
        ValueError: ``path`` exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f'{path} exists and is no regular file; name another file to write.')


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes during a block.

    The operating system releases the lock when the process ends, however it ends; forked processes
    do not inherit it. If the file system has no locks, this function only warns; on Windows, it
    does nothing.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    with (folder / '.lock').open('ab') as file:
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise BlockingIOError(
                f'Another process works in {folder}; wait for it, or choose another folder.'
            ) from None
        except OSError as error:
            what = f'This file system has no locks ({error.strerror}): start one run per folder'
            print_log(what, 'current', logging.WARNING)
        yield


def file_stamp(path: str | Path) -> str:
    """Return the absolute path, the size and the modification time of a file as one string.

    Results that are stored with it belong to this state of the file. The stamp of a folder of
    frames depends on its files and on its :func:`rate_file`. A missing file has a stamp, too.
    """
    path = os.path.abspath(path)
    try:
        state = os.stat(path)
        if stat.S_ISDIR(state.st_mode):
            inside = sorted(entry.path for entry in os.scandir(path) if entry.name[0] != '.')
            return f'{path}\0{files_sha256([*filter(os.path.isfile, inside), rate_file(path)])}'
    except OSError:
        return path
    return f'{path}\0{state.st_size}\0{state.st_mtime_ns}'


def rate_file(folder: str | Path) -> Path:
    """Return the path of the ``fps.txt`` in a folder, or in the nearest folder above with one.

    If there is none, this is the path where it would be in the folder itself.
    """
    path = Path(os.path.abspath(folder))
    files = [parent / RATE_FILE for parent in (path, *path.parents)]
    return next(filter(Path.is_file, files), files[0])


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 digest of a file's content."""
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def files_sha256(paths: Iterable[str | Path]) -> str:
    """Return the SHA-256 digest of the paths, sizes and modification times of files."""
    stamps = '\n'.join(map(file_stamp, paths))
    return hashlib.sha256(stamps.encode(errors='surrogateescape')).hexdigest()


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        return json.loads(Path(path).read_text('utf-8'))
    except ValueError as error:
        raise ValueError(f'{path} is damaged: {error}.') from error


def claim_folder(folder: Path, note: str, about: Mapping[str, Any]) -> None:
    """Note what the files of a new folder depend on, or compare it with the note of an earlier run.

    Args:
        folder: Output folder; created if it does not exist. Hidden files in it do not count.
        note: Name of the file to write.
        about: What to write, as JSON can represent it.

    Raises:
        ValueError: The folder holds other files, or its files depend on something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, about = folder / note, json.loads(json.dumps(about))
    is_used = any(file.name[0] != '.' for file in folder.iterdir())  # before another process does
    if not path.is_file():
        if is_used:
            raise ValueError(f'{folder} holds other files; choose a new folder.')
        with replacing(path) as part:
            part.write_text(json.dumps(about, indent=2) + '\n', encoding='utf-8')
    begun = read_json(path)
    if begun != about:
        differing = [key for key in begun | about if begun.get(key) != about.get(key)]
        raise ValueError(
            f'{folder} was started with other {", ".join(differing)}; choose another folder.'
        )


def is_current(made: Path, stamp: str, noted: str | None) -> bool:
    """Return whether a file exists that was made from the current state of another one.

    Args:
        made: The file.
        stamp: The :func:`file_stamp` of the other one now. It need not exist any more.
        noted: Its stamp when ``made`` was made, if it is known.
    """
    is_same = stamp == noted or '\0' not in stamp
    return noted is not None and is_same and made.exists()


@contextmanager
def journal(folder: Path) -> Iterator[Callable[[str, Any], None]]:
    """Make a file in a folder for notes on what is finished; a kill loses at most the last one.

    Args:
        folder: The folder; created if it does not exist. Several processes can use it.

    Yields:
        A function that writes a value, as JSON can represent it, under a key.

    Raises:
        OSError: The file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f'{secrets.token_hex(8)}.jsonl'
    with path.open('x', encoding='utf-8') as file:

        def note(key: str, value: Any) -> None:
            file.write(json.dumps([key, value]) + '\n')
            file.flush()

        yield note


def read_journals(folder: Path) -> dict[str, Any]:
    """Read the notes of all processes by key; later files replace the values of earlier ones."""
    files = sorted(folder.glob('*.jsonl'), key=lambda path: path.stat().st_mtime_ns)
    # The last line of a process that was killed may be incomplete, and a crash may leave zeros
    lines = [line for path in files for line in path.read_bytes().split(b'\n')[:-1]]
    return dict(json.loads(line) for line in lines if line[:1] + line[-1:] == b'[]')


def printable(text: object) -> str:
    """Escape control characters and undecodable bytes in text from outside."""
    return UNPRINTABLE.sub(lambda found: found[0].encode('unicode_escape').decode(), str(text))


def type_name(config: Mapping) -> str:
    """Return the class name in a config's ``type``, which may be the class or have a scope."""
    kind = config.get('type')
    return getattr(kind, '__name__', str(kind)).rpartition('.')[2]


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, without source locations and times of FFmpeg."""
    if strerror := getattr(error, 'strerror', None):  # of OSError and PyAV's errors
        return strerror
    text = re.sub(r'\[\d+:\d+:\d+\]\s*\S+?:\d+:\s*', '', str(error))
    text = ' '.join(text.split())
    return f'{type(error).__name__}: {text[:200]}' if text else type(error).__name__


def evenly_spaced(length: int, at_most: int) -> list[int]:
    """Choose evenly spaced indices of a sequence, including the first and the last one.

    Args:
        length: Length of the sequence.
        at_most: Number of indices. A shorter sequence is used completely.

    Returns:
        Different indices in increasing order.
    """
    return np.linspace(0, length - 1, min(length, at_most)).round().astype(int).tolist()


def usable_cores() -> int:
    """Return the number of cores that this process may use, within the limits of its container."""
    from joblib import cpu_count  # takes 0.3 seconds

    return cpu_count()


def cores_per_process() -> int:
    """Return the number of cores for each process that torchrun has started here, at least 1."""
    return max(1, usable_cores() // int(os.environ.get('LOCAL_WORLD_SIZE', 1)))


def rank_and_size(env: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Read the rank of this process and the number of processes from the environment.

    These variables are used, in this order: ``RANK`` and ``WORLD_SIZE`` (torchrun);
    ``SLURM_ARRAY_TASK_ID`` and the other variables of a Slurm array; ``SLURM_PROCID`` and
    ``SLURM_NTASKS`` (srun). Without any of them, the rank is 0 of 1.

    Raises:
        ValueError: A variable is not an integer, or the rank is not below the number.
    """
    if 'RANK' in env and 'WORLD_SIZE' in env:
        rank, size = int(env['RANK']), int(env['WORLD_SIZE'])
    elif 'SLURM_ARRAY_TASK_ID' in env:
        rank = int(env['SLURM_ARRAY_TASK_ID']) - int(env.get('SLURM_ARRAY_TASK_MIN', 0))
        size = int(env.get('SLURM_ARRAY_TASK_COUNT', 1))
    elif 'SLURM_STEP_ID' in env and 'SLURM_PROCID' in env:
        rank, size = int(env['SLURM_PROCID']), int(env.get('SLURM_NTASKS', 1))
    else:
        return 0, 1
    if not 0 <= rank < size:
        raise ValueError(
            f'The environment gives rank {rank} of {size}; a Slurm array must be like --array=0-7.'
        )
    return rank, size


def end_with_parent() -> None:
    """End this process at once when the process that started it ends, also if it was killed."""
    parent = parent_process()
    assert parent is not None, 'for processes that multiprocessing has started'

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


@contextmanager
def progress(
    title: str, console: Console | None = None, disable: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar with a title, the number done, the total and the time left.

    Args:
        title: Description of the bar.
        console: Console for the bar. Default: standard output.
        disable: Whether to show nothing, for all but one of several ranks.

    Yields:
        A function to call with the number of finished items and the total.
    """
    if not disable and (show := notebook_line()):
        yield lambda done, total: show(done / max(1, total), f'{title} {done}/{total}')
        return
    columns = [TextColumn('{task.description}', markup=False), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=disable) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def notebook_line() -> Callable[[float, str], None] | None:
    """Make a line of a notebook that shows a bar, from 0 to 1, and a text in place of earlier ones.

    Returns:
        A function that shows them; None outside of Jupyter.
    """
    if not Console().is_jupyter:
        return None
    from IPython.display import display  # rich needs ipywidgets for its own bar

    line = display({'text/plain': ''}, raw=True, display_id=True)

    def show(share: float, text: str) -> None:
        text = printable(text)
        bar = f'<progress value="{share:.3f}"></progress> {html.escape(text)}'
        line.update({'text/plain': text, 'text/html': bar}, raw=True)

    return show
