"""Import and export of weights.

In: checkpoints of TensorFlow, SlowFast, image networks and training runs. Out: self-describing
files of weights, or graphs (ONNX, pt2). Start with ``files.py``, which checks the contents of each
file, and ``description.py``, which builds the network that a file describes.
"""

from .export import extract_backbone
from .files import load_weights, save_weights
from .resnet import convert_slowfast, inflate_resnet
from .tensorflow import convert_tf_checkpoint

__all__ = [
    'convert_slowfast',
    'convert_tf_checkpoint',
    'extract_backbone',
    'inflate_resnet',
    'load_weights',
    'save_weights',
]
