"""Share the encoder of a training, with a model card."""

from importlib.metadata import version
from pathlib import Path
from string import Template

from ..encoder import sharing
from ..encoder.encoder import load_encoder
from ..text import printable

CARD = Path(__file__).with_name('card.template')
FILES = ('encoder.safetensors', 'config.py', 'index.html', 'report.json')  # that are shared


def push(out: str | Path, name: str) -> str:
    """Share the encoder of a training with its config, page and a model card.

    The card leaves the licence to the user.

    Args:
        out: Output folder of ``cvrl pretrain``.
        name: Name of the repository; see :func:`.sharing.push`.

    Returns:
        The address of the repository.

    Raises:
        FileNotFoundError: The folder does not hold a finished training.
        ImportError, OSError, ValueError: See :func:`.sharing.push`.
    """
    folder = Path(out)
    card = model_card(folder, name).encode()
    return sharing.push(name, {'README.md': card} | {file: folder / file for file in FILES})


def model_card(folder: Path, name: str) -> str:
    """Write the text of a model card from the results of a training.

    Args:
        folder: Output folder of ``cvrl pretrain``.
        name: Name of the repository, ``USER/NAME``.

    Raises:
        FileNotFoundError: The folder does not hold a finished training.
    """
    encoder = load_encoder(folder)
    _, _, *results = (folder / 'report.md').read_text('utf-8').split('\n\n')  # after the verdict
    clips = encoder.clip_input
    return Template(CARD.read_text(encoding='utf-8')).substitute(
        name=printable(name),
        version=version('cvrl_mm'),
        backbone=', '.join(f'{k}={v}' for k, v in encoder.meta['backbone'].items() if k != 'type'),
        parameters=f'{sum(p.numel() for p in encoder.parameters()) / 1e6:.2g}',
        clips=f'{clips.clip_len} frames of {clips.size}x{clips.size}, every {clips.frame_interval}',
        fps=f' at {clips.fps:g} frames per second' if clips.fps else '',
        results='\n\n'.join(results),
    )
