"""Run the scripts that MMAction2 ships, with this package registered."""

import runpy
from pathlib import Path

import mmaction

from .weights_only import refuse_foreign_code


def run_host_tool(name: str) -> None:
    """Run a script of MMAction2's ``tools`` folder as the main program.

    Checkpoints are loaded as weights only (:mod:`cvrl_mm.weights_only`).

    Args:
        name: Path of the script within that folder, such as 'train.py'.

    Raises:
        FileNotFoundError: The installed mmaction2 has no such script.
    """
    refuse_foreign_code()
    package = Path(mmaction.__file__).parent
    folders = [package / '.mim' / 'tools', package.parent / 'tools']  # wheel, source checkout
    for folder in folders:
        if (folder / name).is_file():
            runpy.run_path(str(folder / name), run_name='__main__')
            return
    raise FileNotFoundError(
        f'mmaction2 has no tools/{name}; looked in {folders[0]} and {folders[1]}. '
        'Install it from PyPI, or with "pip install -e ." from its repository.'
    )
