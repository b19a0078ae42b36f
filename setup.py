"""Refuse to build a package without its configs and tools; all settings are in setup.cfg."""

from pathlib import Path

from setuptools import setup

if not Path(__file__).with_name('cvrl_mm').joinpath('.mim', 'configs').is_dir():
    raise SystemExit(
        'cvrl_mm/.mim/configs should be a link to configs/, but this copy has none: links get lost '
        'in archives and in clones with core.symlinks=false. Install from a clone on a file system '
        'with links: git clone, then pip install the folder.'
    )
setup()
