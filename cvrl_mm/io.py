"""Files that other processes may read or write: atomic writes, locks, stamps and journals."""

import hashlib
import json
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmengine.logging import print_log

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RATE_FILE = 'fps.txt'  # frames per second of folders of frames
PART = '.part'  # in the name of a file that is being written


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


def replace_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, as by :func:`replacing`; names that are not UTF-8 are kept."""
    with replacing(path) as part:
        part.write_text(text, encoding='utf-8', errors='surrogateescape')


def check_target(path: Path) -> None:
    """Refuse to replace a folder or a device, such as /dev/null, by a file.

    Raises:
        ValueError: ``path`` exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f'{path} exists and is no regular file; name another file to write.')


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Lock a folder against other processes during a block.

    The operating system releases the lock when the process ends, however it ends; forked processes
    do not inherit it. If the file system has no locks, this function only warns; on Windows, it
    does nothing.

    Args:
        folder: The folder.
        wait: Whether to wait until no other process holds the lock.

    Raises:
        BlockingIOError: Another process holds the lock, and ``wait`` is False.
    """
    with (folder / '.lock').open('ab') as file:
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
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


def made_from(files: Iterable[str | Path], **settings: Any) -> dict[str, Any]:
    """Describe what results are made from, for a note beside them; see :func:`differing`.

    Args:
        files: Files and folders of frames; their paths, sizes and times count, and their order.
        settings: Other values, as JSON can represent them.

    Returns:
        The settings, and a digest named ``files``.
    """
    return json.loads(json.dumps(settings | dict(files=files_sha256(files))))


def differing(noted: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of what differs between a note and the present."""
    return [key for key in noted | now if noted.get(key) != now.get(key)]  # type: ignore[operator]


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
        replace_text(path, json.dumps(about, indent=2) + '\n')
    if others := differing(read_json(path), about):
        raise ValueError(
            f'{folder} was started with other {", ".join(others)}; choose another folder.'
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
