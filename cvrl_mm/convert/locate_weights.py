"""Find a weights file on disk, at a web address or on the Hugging Face hub."""

import hashlib
import shutil
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import urlopen

import torch

from ..io import replacing

TIMEOUT_SECONDS = 20  # of each read from the server
TF_SUFFIXES = ('.tar.gz', '.tgz', '.index')
NAMES = ('encoder.safetensors', 'encoder.pth')


def locate_weights(source: str | Path) -> Path:
    """Return the local path of a weights file; download it if it is not cached.

    Downloads are stored in torch's cache (``torch.hub.get_dir()``), or in the cache of
    huggingface_hub for ``hf://`` addresses.

    Args:
        source: A file, a folder with ``encoder.safetensors`` or ``encoder.pth``,
            ``http(s)://…``, or ``hf://OWNER/NAME`` with an optional ``/FILE``.

    Raises:
        OSError: The file does not exist, or the download failed.
        ImportError: huggingface_hub, which is needed for ``hf://``, is not installed.
        ValueError: The address is malformed, or the file is a TensorFlow checkpoint.
    """
    text = str(source)
    if text.startswith(('http://', 'https://')):
        return _download(text)
    if text.startswith('hf://'):
        return _download_from_hub(text)
    path = Path(source)
    if text.endswith(TF_SUFFIXES) or Path(f'{path}.index').is_file():
        raise ValueError(
            f'{path} is a TensorFlow checkpoint. Convert it first: cvrl convert tf {path} OUT.pth'
        )
    if not path.is_dir():
        return path
    found = [path / name for name in NAMES if (path / name).is_file()]
    if not found:
        raise FileNotFoundError(f'The folder {path} holds neither {" nor ".join(NAMES)}.')
    return found[0]


def _download(address: str) -> Path:
    name = Path(urlparse(address).path).name
    if not name:
        raise ValueError(f'{address} names no file.')
    # One folder per address, since files at different addresses may have the same name.
    folder = Path(torch.hub.get_dir(), 'cvrl_mm', hashlib.sha256(address.encode()).hexdigest()[:16])
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(path) as part, urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
                with part.open('wb') as file:
                    shutil.copyfileobj(answer, file)
                if answer.length:  # read() raises no error for a truncated answer
                    raise ConnectionError(f'the answer ended {answer.length} bytes early')
        except (OSError, HTTPException) as error:
            raise OSError(f'{address} cannot be downloaded: {error}') from error
    return path


def _download_from_hub(address: str) -> Path:
    owner, _, rest = address.removeprefix('hf://').partition('/')
    name, _, file = rest.partition('/')
    if not owner or not name:
        raise ValueError(f'{address} must have the form hf://OWNER/NAME or hf://OWNER/NAME/FILE.')
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ImportError(
            'hf:// addresses need huggingface_hub: pip install huggingface_hub.'
        ) from error
    names = [file] if file else NAMES
    for candidate in names:
        try:
            return Path(hf_hub_download(f'{owner}/{name}', candidate))
        except OSError as error:  # also raised if the repository has no such file
            failure = error
    raise OSError(
        f'Cannot download {" or ".join(names)} from hf://{owner}/{name}: {failure}'
    ) from failure
