"""Import of other projects' weights.

In: checkpoints of TensorFlow, SlowFast and image networks. Out: checkpoints that describe their
encoder, to be saved by ``encoder/files.py``. Start with ``resnet.py``, or with ``tensorflow.py``
for the weights that the authors of CVRL have released.
"""

from .resnet import convert_slowfast, inflate_resnet
from .tensorflow import convert_tf_checkpoint

__all__ = ['convert_slowfast', 'convert_tf_checkpoint', 'inflate_resnet']
