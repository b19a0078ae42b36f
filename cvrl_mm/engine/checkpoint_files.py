"""Checkpoint files that are whole."""

import os
import re
import zipfile
from pathlib import Path

import torch
from mmengine.fileio import LocalBackend, register_backend

PART = '.part'  # what is not yet a checkpoint ends so


@register_backend('whole_files')
class WholeFilesBackend(LocalBackend):
    """The local file system, where a file appears whole or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file beside its place and move it there once it is on the disk.

        Raises:
            OSError: it could not be written; what stood in its place still does.
        """
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + PART)
        try:
            with part.open('wb') as file:
                file.write(obj)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise OSError(
                error.errno,
                f'{error.strerror}; {len(obj) / 2**20:.0f} MiB could not be written and nothing '
                'else was removed. Make room and start again with --resume',
                str(path),
            ) from error


def is_whole(path: Path) -> bool:
    """Whether a checkpoint can be read to its end, by the checksums of its parts."""
    try:
        with zipfile.ZipFile(path) as file:
            if file.testzip() is not None:
                return False
            torch._C.PyTorchFileReader(str(path))  # stricter on the table of contents
            return any(name.endswith('data.pkl') for name in file.namelist())
    except Exception:  # a damaged byte can lead zipfile to an error of any kind
        return False


def newest_first(folder: Path, filename_tmpl: str, since_ns: int = 0) -> list[Path]:
    """List checkpoints, the last one written first.

    Args:
        folder: Where they are.
        filename_tmpl: Their names, '{}' in place of the step or epoch.
        since_ns: Those written before this time, in ns since 1970, are left out.
    """
    pattern = re.compile(re.escape(filename_tmpl).replace(r'\{\}', r'(\d+)'))
    matches = [(pattern.fullmatch(p.name), p) for p in folder.glob('*')]
    aged = [(p.stat().st_mtime_ns, int(m[1]), p) for m, p in matches if m]
    return [path for ns, _, path in sorted(aged, reverse=True) if ns >= since_ns]
