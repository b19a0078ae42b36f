"""Configs, parsed once for all tests."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
from mmengine.config import Config

CONFIGS = Path(__file__).parents[2] / 'configs'
LEAVES = sorted(p for p in CONFIGS.rglob('*.py') if '_base_' not in p.parts)
_read = cache(Config._file2dict)


@cache
def _parse(path: Path) -> Config:
    with pytest.MonkeyPatch.context() as patch:  # mmengine reads a base for each of its leaves
        read = staticmethod(lambda *args, **kwargs: deepcopy(_read(*args, **kwargs)))
        patch.setattr(Config, '_file2dict', read)
        return Config.fromfile(path)


def load(name: str | Path) -> Config:
    """Return a copy of the config with a name, a path below ``configs``, or a path."""
    (path,) = [name] if isinstance(name, Path) else CONFIGS.rglob(f'{name.removesuffix(".py")}.py')
    return deepcopy(_parse(path))
