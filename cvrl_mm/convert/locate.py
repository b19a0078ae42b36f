"""Locate a TensorFlow checkpoint, which may be in an archive."""

import lzma
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

LARGEST_RATIO = 20  # of unpacked to packed size; weights can hardly be compressed
SMALL_BYTES = 1 << 20  # allowed at any ratio
MAX_DEPTH = 32


@contextmanager
def checkpoint_prefix(source: str | Path) -> Iterator[Path]:
    """Yield the prefix of a checkpoint; archives are unpacked first.

    Args:
        source: The prefix itself, its ``.index`` file, a folder with one checkpoint, or a
            ``.tar.gz`` or other tar archive, which is unpacked into a temporary folder.

    Yields:
        The path before ``.index`` and ``.data-…``.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: There are several checkpoints, or the archive is damaged or refused (a file
            outside of the target folder, a link, a suspicious size or depth).
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
            f'{source} is not a TensorFlow checkpoint: there is no such folder or archive, '
            f'and no {source.name}.index.'
        )


def _only_checkpoint(folder: Path, source: Path) -> Path:
    # archives made on macOS contain a file ._NAME beside each NAME
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
                        f'size of {archive.stat().st_size / 1e6:.1f} MB, which is implausible '
                        'for weights.'
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
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        raise ValueError(
            f'{archive} is not a readable archive: {error}. Download it again, or give the '
            f'prefix of an unpacked checkpoint.'
        ) from error


def _checked(member: tarfile.TarInfo, archive: Path) -> tarfile.TarInfo:
    path = PurePosixPath(member.name)
    if len(path.parts) > MAX_DEPTH:
        raise ValueError(f'{archive} is refused: its folders are more than {MAX_DEPTH} deep.')
    if path.is_absolute() or '..' in path.parts:
        raise ValueError(
            f'{archive} is refused: its member {member.name} would be written outside the '
            f'target folder.'
        )
    if not (member.isfile() or member.isdir()):
        raise ValueError(
            f'{archive} is refused: its member {member.name} is a link or a device; a '
            f'checkpoint contains only files and folders.'
        )
    return member
