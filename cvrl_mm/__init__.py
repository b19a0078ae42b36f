"""CVRL for MMAction2. Importing this package registers its models, datasets, transforms and hooks.

In a config, use ``custom_imports = dict(imports=['cvrl_mm'])``.
"""

from . import compat, quiet
from .version import __version__

quiet.hide_warnings()  # before the imports that warn
compat.apply()

from . import augmentation, datasets, engine, models  # noqa: E402
from .evaluation.encoder import load_encoder  # noqa: E402
from .own_videos import pretrain  # noqa: E402

__all__ = [
    '__version__',
    'augmentation',
    'datasets',
    'engine',
    'load_encoder',
    'models',
    'pretrain',
]
