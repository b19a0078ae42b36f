"""Share an encoder on the Hugging Face hub."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from ..text import one_line

IN_EACH = {'.gitattributes'}  # files of a new repository


def push(name: str, files: Mapping[str, Path | bytes]) -> str:
    """Copy an encoder and the files beside it to a new, private repository.

    The token comes from ``hf auth login`` or the environment variable ``HF_TOKEN``.

    Args:
        name: Name of the repository, ``USER/NAME``. It is created unless it exists and is empty.
        files: What to copy, by name in the repository.

    Returns:
        The address of the repository; ``load_encoder('hf://USER/NAME')`` reads it.

    Raises:
        FileExistsError: The repository has files.
        ImportError: huggingface_hub is not installed.
        OSError: There is no token, or the hub does not answer or refuses. A file is never changed.
        ValueError: This is no name of a repository, or a file is missing.
    """
    from huggingface_hub import CommitOperationAdd, HfApi  # an optional package
    from huggingface_hub.errors import HTTPError

    if name.count('/') != 1:
        raise ValueError(f'The name must have the form USER/NAME, got {name}.')
    own = version('cvrl_mm')
    added = [CommitOperationAdd(file, content) for file, content in files.items()]
    api = HfApi(token=True, library_name='cvrl_mm', library_version=own)
    try:
        address = api.create_repo(name, private=True, exist_ok=True)
        held = {*api.list_repo_files(name)} - IN_EACH
        if not held:
            api.create_commit(name, added, commit_message=f'Add an encoder of cvrl_mm {own}')
    except (OSError, HTTPError) as error:
        raise OSError(f'{name} cannot be pushed: {one_line(error)}') from error
    if held:
        raise FileExistsError(f'{address} holds {min(held)} already; choose another name.')
    return str(address)
