"""Locate a TensorFlow checkpoint, which may be packed."""

import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

LARGEST_RATIO = 20  # of the unpacked files to the archive; random numbers hardly shrink
SMALL_BYTES = 1 << 20  # always allowed, for any ratio
MAX_DEPTH = 32


@contextmanager
def checkpoint_prefix(source: str | Path) -> Iterator[Path]:
    """Yield the prefix of a checkpoint, unpacked if necessary.

    Args:
        source: The prefix itself, its ``.index`` file, a folder with one checkpoint, or a
            ``.tar.gz`` as released, which is unpacked into a temporary folder.

    Yields:
        The path before ``.index`` and ``.data-…``.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: there are several, or the archive is damaged or would write outside
            its folder.
    """
    source = Path(source)
    if source.is_dir():
        yield _only_checkpoint(source, source)
    elif source.suffix == '.index':
        yield source.with_suffix('')
    elif source.with_name(f'{source.name}.index').is_file():
        yield source
    elif source.is_file():
        with TemporaryDirectory() as folder:
            _unpack(source, Path(folder))
            yield _only_checkpoint(Path(folder), source)
    else:
        raise FileNotFoundError(
            f'{source} is no TensorFlow checkpoint: there is no such folder or archive, and no '
            f'{source.name}.index either.'
        )


def _only_checkpoint(folder: Path, source: Path) -> Path:
    # macOS packs a file ._NAME beside each NAME
    found = sorted(p for p in folder.rglob('*.index') if not p.name.startswith('.'))
    if not found:
        raise FileNotFoundError(f'{source} holds no checkpoint: no file in it ends in .index.')
    if len(found) > 1:
        names = ', '.join(str(p.relative_to(folder)) for p in found)
        raise ValueError(f'{source} holds several checkpoints: {names}. Name one of them.')
    return found[0].with_suffix('')


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the checkpoint files of an archive; refuse it if any member is suspicious."""
    try:
        with tarfile.open(archive) as tar:
            members, size = [], 0
            for member in tar:
                members.append(_checked(member, archive))
                size += member.size
                if size > LARGEST_RATIO * archive.stat().st_size + SMALL_BYTES:
                    raise ValueError(
                        f'{archive} is refused: it unpacks to more than {LARGEST_RATIO} times its '
                        f'size of {archive.stat().st_size / 1e6:.1f} MB, which weights do not do.'
                    )
            for member in members:
                name = PurePosixPath(member.name).name
                if not name.endswith('.index') and '.data-' not in name:
                    continue
                if member.isfile() and (packed := tar.extractfile(member)):
                    file = folder / member.name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with packed, file.open('wb') as unpacked:
                        shutil.copyfileobj(packed, unpacked)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(
            f'{archive} is no readable archive: {error}. Fetch it again, or name the prefix of '
            f'a checkpoint that is unpacked.'
        ) from error


def _checked(member: tarfile.TarInfo, archive: Path) -> tarfile.TarInfo:
    path = PurePosixPath(member.name)
    if len(path.parts) > MAX_DEPTH:
        raise ValueError(f'{archive} is refused: its folders are more than {MAX_DEPTH} deep.')
    if path.is_absolute() or '..' in path.parts:
        raise ValueError(
            f'{archive} is refused: its member {member.name} would be written outside the '
            f'folder it is unpacked into.'
        )
    if not (member.isfile() or member.isdir()):
        raise ValueError(
            f'{archive} is refused: its member {member.name} is a link or a device; a '
            f'checkpoint has only files and folders.'
        )
    return member
