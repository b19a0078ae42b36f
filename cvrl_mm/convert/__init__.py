"""Weights of other origins, and weights for other programs.

Files of TensorFlow, SlowFast, image networks and training runs go in; files of weights that
describe themselves, or graphs (ONNX, pt2), come out. Start reading at ``files.py``, which checks
the contents of every file, and ``description.py``, which builds the network that a file describes.
"""

from .export import export_slow_only, extract_backbone
from .files import load_weights, save_weights
from .inflate import inflate_resnet
from .slowfast import convert_slowfast
from .tf_checkpoint import convert_tf_checkpoint

__all__ = [
    'convert_slowfast',
    'convert_tf_checkpoint',
    'export_slow_only',
    'extract_backbone',
    'inflate_resnet',
    'load_weights',
    'save_weights',
]
