"""Share a trained encoder: a repository on the Hugging Face hub, with a model card."""

from pathlib import Path
from string import Template

from .. import __version__
from ..cli import read_config
from ..evaluation.encoder import load_encoder
from ..io import one_line, printable, read_json
from .folder import AFTER, BEFORE, Lists

CARD = Path(__file__).with_name('card.template')
FILES = ('encoder.safetensors', 'config.py', 'index.html', 'report.json')
IN_EACH = {'.gitattributes'}  # files of a new repository


def push(out: str | Path, name: str) -> str:
    """Copy an encoder with its config, page and a model card to a new, private repository.

    The token comes from ``hf auth login`` or the environment variable ``HF_TOKEN``. The card
    leaves the licence to the user.

    Args:
        out: Output folder of ``cvrl pretrain``.
        name: Name of the repository, ``USER/NAME``. It is created unless it exists and is empty.

    Returns:
        The address of the repository; ``load_encoder('hf://USER/NAME')`` reads it.

    Raises:
        FileNotFoundError: The folder does not hold a finished training.
        FileExistsError: The repository has files.
        ImportError: huggingface_hub is not installed.
        OSError: There is no token, or the hub does not answer or refuses. A file is never changed.
        ValueError: This is no name of a repository.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token  # an optional package
    from huggingface_hub.errors import HTTPError

    if name.count('/') != 1:
        raise ValueError(f'The name must have the form USER/NAME, got {name}.')
    folder = Path(out)
    card = model_card(folder, name)
    if get_token() is None:
        raise PermissionError('There is no token of the hub; run `hf auth login` or set HF_TOKEN.')
    files: dict[str, bytes | Path] = {'README.md': card.encode()}
    files |= {file: folder / file for file in FILES}
    api = HfApi(library_name='cvrl_mm', library_version=__version__)
    try:
        address = api.create_repo(name, private=True, exist_ok=True)
        held = {*api.list_repo_files(name)} - IN_EACH
        if not held:
            added = [CommitOperationAdd(file, content) for file, content in files.items()]
            api.create_commit(
                name, added, commit_message=f'Add an encoder of cvrl_mm {__version__}'
            )
    except (OSError, HTTPError) as error:
        raise OSError(f'{name} cannot be pushed: {one_line(error)}') from error
    if held:
        raise FileExistsError(f'{address} holds {min(held)} already; choose another name.')
    return str(address)


def model_card(folder: Path, name: str) -> str:
    """Write the text of a model card from the results of a training.

    Args:
        folder: Output folder of ``cvrl pretrain``.
        name: Name of the repository, ``USER/NAME``.

    Raises:
        FileNotFoundError: The folder does not hold a finished training.
        ValueError: A file of the training is damaged.
    """
    if missing := [file for file in FILES if not (folder / file).is_file()]:
        raise FileNotFoundError(f'{folder} has no {missing[0]}: it is no finished cvrl pretrain.')
    encoder, report = load_encoder(folder), read_json(folder / 'report.json')
    cfg = read_config(folder / 'config.py', 'train_cfg', 'train_dataloader', 'optim_wrapper')
    lists, clips = Lists.read(folder), encoder.clip_input
    rows = [
        f'| {new["title"]} | {old["value"]:.1f} | {new["value"]:.1f} '
        f'| {"" if new["chance"] is None else format(new["chance"], ".1f")} |'
        for old, new in zip(report[BEFORE], report[AFTER], strict=True)
    ]
    return Template(CARD.read_text(encoding='utf-8')).substitute(
        name=printable(name),
        version=__version__,
        backbone=', '.join(f'{k}={v}' for k, v in encoder.meta['backbone'].items() if k != 'type'),
        parameters=f'{sum(p.numel() for p in encoder.parameters()) / 1e6:.2g}',
        clips=f'{clips.clip_len} frames of {clips.size}x{clips.size}, every {clips.frame_interval}',
        fps=f' at {clips.fps:g} frames per second' if clips.fps else '',
        videos=len(lists.names),
        trained=len(lists.train),
        classes=f', in folders of {len(lists.classes)} classes' if lists.labels else '',
        steps=cfg.train_cfg.max_iters,
        batch=cfg.train_dataloader.batch_size,
        optimizer=cfg.optim_wrapper.optimizer.type,
        lr=cfg.optim_wrapper.optimizer.lr,
        start='other weights' if (folder / 'init.pth').is_file() else 'random weights',
        rows='\n'.join(rows),
    )
