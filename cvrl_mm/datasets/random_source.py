"""What transforms draw from."""

from types import ModuleType

import numpy as np

# A random state, or the module numpy.random itself, which has the draws of the global one.
RandomSource = np.random.RandomState | ModuleType
