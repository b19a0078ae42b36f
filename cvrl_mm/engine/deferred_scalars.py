"""Logged values that stay on the device until they are read."""

import numpy as np
import torch
from mmengine.logging import HistoryBuffer, MessageHub
from torch import Tensor

MAX_PENDING = 10_000  # maximal number of values that are not read


def log_scalar(hub: MessageHub, name: str, value: Tensor) -> None:
    """Append a value to a history of the message hub without reading it.

    ``MessageHub.update_scalar`` reads a value immediately, for which the host waits for the device.
    This function defers the reading until a history is accessed, usually by the logger once per
    logging interval. All pending values are then read in one copy.

    Args:
        hub: Message hub of the runner.
        name: Name of the history, such as ``train/loss``.
        value: A tensor with one element.
    """
    hub._set_resumed_keys(name, True)
    history = hub.log_scalars.get(name)
    if not isinstance(history, DeferredHistory):
        history = DeferredHistory(*(((), ()) if history is None else history.data))
        hub.log_scalars[name] = history
    history.append(value.detach())


class DeferredHistory(HistoryBuffer):
    """A history whose latest values may still be on the device."""

    # (history, value) of all histories
    pending: list[tuple['DeferredHistory', Tensor]] = []

    def append(self, value: Tensor) -> None:
        """Append a value without reading it."""
        self.pending.append((self, value))
        if len(self.pending) >= MAX_PENDING:
            self.read_pending()

    @classmethod
    def read_pending(cls) -> None:
        """Read the pending values of all histories, with one copy per type and device."""
        pending, cls.pending[:] = cls.pending[:], []
        alike: dict[tuple, list[int]] = {}
        for place, (_, value) in enumerate(pending):
            alike.setdefault((value.dtype, value.device), []).append(place)
        numbers = [0.0] * len(pending)
        for places in alike.values():
            read = torch.stack([pending[place][1].reshape(()) for place in places]).tolist()
            for place, number in zip(places, read, strict=True):
                numbers[place] = number
        new: dict[DeferredHistory, list[float]] = {}
        for (history, _), number in zip(pending, numbers, strict=True):
            new.setdefault(history, []).append(number)
        for history, values in new.items():
            history._extend(values)

    _counts: np.ndarray
    _values: np.ndarray

    def _extend(self, values: list[float]) -> None:
        counts = np.append(self._counts, [1] * len(values))
        self._values = np.append(self._values, values)[-self.max_length :]
        self._counts = counts[-self.max_length :]

    # HistoryBuffer reads and writes these two attributes in all of its methods.
    @property
    def _log_history(self) -> np.ndarray:
        self.read_pending()
        return self._values

    @_log_history.setter
    def _log_history(self, values: np.ndarray) -> None:
        self._values = values

    @property
    def _count_history(self) -> np.ndarray:
        self.read_pending()
        return self._counts

    @_count_history.setter
    def _count_history(self, counts: np.ndarray) -> None:
        self._counts = counts

    def __reduce__(self) -> tuple:
        """Copy and pickle as an ordinary history."""
        return HistoryBuffer, (*self.data, self.max_length)
