"""Engine: what mmengine's runner lacks for trainings of days on videos from anywhere.

In: the runner at its hook points and a loader of videos. Out: checkpoints that survive kills,
draws that survive restarts, measures of the representation, and errors before time is lost. Start
with ``checkpoint.py`` and ``loops.py``.

Loops: ``SeededEpochLoop``, ``SeededIterLoop``. Hooks of all configs: ``AtomicCheckpointHook``,
``ChecksHook``, ``BadVideosHook``, ``FiniteLossHook``, ``RegularizationLossHook``; optional
``KNNMonitorHook``, the k-NN monitor.
"""

from .checkpoint import AtomicCheckpointHook
from .checks import ChecksHook
from .knn_monitor import KNNMonitorHook
from .loops import SeededEpochLoop, SeededIterLoop
from .steps import AutocastOptimWrapper, BadVideosHook, FiniteLossHook, RegularizationLossHook

__all__ = [
    'AtomicCheckpointHook',
    'AutocastOptimWrapper',
    'BadVideosHook',
    'ChecksHook',
    'FiniteLossHook',
    'KNNMonitorHook',
    'RegularizationLossHook',
    'SeededEpochLoop',
    'SeededIterLoop',
]
