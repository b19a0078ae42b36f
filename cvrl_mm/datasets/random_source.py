"""The type of random sources."""

from types import ModuleType

import numpy as np

# A random state, or the module numpy.random, whose functions use the global random state.
RandomSource = np.random.RandomState | ModuleType
