"""Find a weights file: on disk, in a folder, at an address, or on the Hugging Face hub."""

import hashlib
import shutil
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import urlopen

import torch

from ..files import replacing

TIMEOUT_SECONDS = 20  # the longest time without a byte
TF_SUFFIXES = ('.tar.gz', '.tgz', '.index')
NAMES = ('encoder.safetensors', 'encoder.pth')


def locate_weights(source: str | Path) -> Path:
    """Return the local file of a source; files from the network are downloaded once.

    Downloads go to torch's cache (``torch.hub.get_dir()``), those of the Hugging Face hub to
    its own.

    Args:
        source: A file, a folder that holds one of ``encoder.safetensors`` and ``encoder.pth``,
            ``http(s)://…``, or ``hf://OWNER/NAME`` with an optional ``/FILE``.

    Raises:
        OSError: there is no such file or address.
        ImportError: ``hf://`` needs huggingface_hub, which is not installed.
        ValueError: the address is malformed, or the file is a checkpoint of TensorFlow.
    """
    text = str(source)
    if text.startswith(('http://', 'https://')):
        return _download(text)
    if text.startswith('hf://'):
        return _download_from_hub(text)
    path = Path(source)
    if text.endswith(TF_SUFFIXES) or Path(f'{path}.index').is_file():
        raise ValueError(
            f'{path} is a checkpoint of TensorFlow. Convert it first: '
            f'python tools/convert_checkpoint.py tf {path} OUT.pth'
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
    # Files of equal name at different addresses stay apart.
    folder = Path(torch.hub.get_dir(), 'cvrl_mm', hashlib.sha256(address.encode()).hexdigest()[:16])
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(path) as part, urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
                with part.open('wb') as file:
                    shutil.copyfileobj(answer, file)
                if answer.length:  # read() does not complain about an answer that ends early
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
        raise ImportError('hf:// addresses need huggingface_hub: pip install it.') from error
    return Path(hf_hub_download(f'{owner}/{name}', file or NAMES[0]))
