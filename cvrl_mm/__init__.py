"""CVRL for MMAction2. Importing this package registers its models, datasets, transforms and hooks.

In a config, use ``custom_imports = dict(imports=['cvrl_mm'])``.
"""

from importlib.metadata import version

from . import compat

__version__ = version('cvrl_mm')

compat.apply()

from . import augmentation, datasets, engine, models  # noqa: E402
from .encoder.encoder import load_encoder  # noqa: E402
from .own_videos import finetune, load_classifier, pretrain  # noqa: E402

__all__ = [
    '__version__',
    'augmentation',
    'datasets',
    'engine',
    'finetune',
    'load_classifier',
    'load_encoder',
    'models',
    'pretrain',
]
