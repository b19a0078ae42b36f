"""Configs, parsed once for all tests."""

from copy import deepcopy
from functools import cache
from pathlib import Path

from mmengine.config import Config

CONFIGS = Path(__file__).parents[2] / 'configs'
LEAVES = sorted(p for p in CONFIGS.rglob('*.py') if '_base_' not in p.parts)
_parse = cache(Config.fromfile)


def load(name: str | Path) -> Config:
    """Return a copy of the config with a name, a path below ``configs``, or a path."""
    (path,) = [name] if isinstance(name, Path) else CONFIGS.rglob(f'{name.removesuffix(".py")}.py')
    return deepcopy(_parse(path))
