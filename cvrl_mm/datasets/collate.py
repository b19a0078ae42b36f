"""Collate batches into one tensor in shared memory that the workers reuse."""

import io
import os
import pickle
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from multiprocessing import active_children
from typing import Any

import numpy as np
import torch
from mmengine.registry import FUNCTIONS
from torch import Tensor
from torch.utils.data import get_worker_info

HEADER = 64  # bytes before the data; the first one is 1 while the buffer is in use


@FUNCTIONS.register_module()
def stack_collate(samples: Sequence[dict]) -> dict:
    """Stack the inputs of a batch into one tensor.

    mmengine's ``pseudo_collate`` sends one tensor per sample from the worker to the training
    process, each with its own file descriptor, and the training process maps and unmaps its
    memory. With this function, a worker writes the batch into shared memory and reuses the memory
    when the training process holds no reference to the batch any more. The training process maps
    each buffer once. If CUDA is initialised, the buffer is also page-locked, so that copies to the
    device can be asynchronous. A buffer is freed when its worker ends.

    The data preprocessor must accept a stacked batch, as :class:`ClipDataPreprocessor` does.

    Args:
        samples: N dicts, as returned by ``PackActionInputs``, with ``data_samples`` and ``inputs``,
            a tensor of the same shape and type in all dicts.

    Returns:
        ``inputs``: (N, …), in the memory order of the first sample; ``data_samples``: a list of N
        samples.

    Raises:
        RuntimeError: The inputs differ in shape; add Resize and a crop to the pipeline, or use
            ``pseudo_collate``.
    """
    inputs = [sample['inputs'] for sample in samples]
    data_samples = [sample['data_samples'] for sample in samples]
    if get_worker_info() is None:
        return dict(inputs=torch.stack(inputs), data_samples=data_samples)
    first = inputs[0]
    strides = torch.empty_like(first, device='meta').stride()
    buffer = _free_buffer(len(inputs) * first.nbytes)
    buffer.layout = first.dtype, (len(inputs), *first.shape), (first.numel(), *strides)
    torch.stack(inputs, out=_tensor(buffer.memory.numpy()[HEADER:], *buffer.layout))
    return dict(inputs=buffer, data_samples=_Packed(data_samples))


def _tensor(data: np.ndarray, dtype: torch.dtype, shape: tuple, strides: tuple) -> Tensor:
    """Return a view of bytes, (N, …)."""
    return torch.from_numpy(data).view(dtype).as_strided(shape, strides)


class _Buffer:
    """Shared memory of a worker that holds one batch at a time.

    It becomes this batch, a tensor, when the training process unpickles it.
    """

    serial = count()
    layout: tuple  # arguments of _tensor

    def __init__(self, num_bytes: int) -> None:
        rounded = HEADER + num_bytes + -num_bytes % 8  # can be viewed as any type
        self.memory = torch.empty(rounded, dtype=torch.uint8).share_memory_()
        self.state = self.memory.numpy()[:1]
        self.key = os.getpid(), next(self.serial)
        self.was_sent = False

    def __reduce__(self) -> tuple:
        memory = None if self.was_sent else self.memory
        self.was_sent = True
        return _receive, (self.key, memory, self.layout)


_own_buffers: list[_Buffer] = []  # the buffers of this worker
_mapped: dict[tuple[int, int], Tensor] = {}  # the workers' buffers, in the training process


def _free_buffer(num_bytes: int) -> _Buffer:
    """Return a buffer that is not in use; create one if there is none."""
    fitting = (b for b in _own_buffers if len(b.memory) >= HEADER + num_bytes)
    buffer = next((b for b in fitting if not b.state[0]), None)
    if buffer is None:
        buffer = _Buffer(num_bytes)
        _own_buffers.append(buffer)
    buffer.state[0] = 1
    return buffer


def _receive(key: tuple[int, int], memory: Tensor | None, layout: tuple) -> Tensor:
    """Return the batch in a worker's buffer, and free the buffer after its last reference."""
    if memory is not None:
        forget_ended_workers()
        _page_lock(memory)
        _mapped[key] = memory
    array = _mapped[key].numpy()
    data = array[HEADER:]  # the storage of the returned tensor refers to this new array
    weakref.finalize(data, array.__setitem__, 0, 0).atexit = False
    return _tensor(data, *layout)


class _Packed:
    """Samples, which become a list when the training process unpickles them.

    Their tensors, such as labels, are sent by value, because torch would send each of them as
    shared memory with its own file descriptor.
    """

    def __init__(self, samples: list[Any]) -> None:
        stream = io.BytesIO()
        pickler = pickle.Pickler(stream)
        pickler.dispatch_table = {Tensor: lambda x: (torch.from_numpy, (x.numpy(),))}
        pickler.dump(samples)
        self.content = stream.getvalue()

    def __reduce__(self) -> tuple:
        return pickle.loads, (self.content,)


def forget_ended_workers() -> None:
    """Unmap the buffers of ended workers; batches with references remain mapped."""
    alive = {process.pid for process in active_children()}
    for key in [key for key in _mapped if key[0] not in alive]:
        del _mapped[key]


def _page_lock(memory: Tensor) -> None:
    """Page-lock a buffer, if the system can, so that copies to the GPU can be asynchronous."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return
    runtime, address = torch.cuda.cudart(), memory.data_ptr()
    if int(runtime.cudaHostRegister(address, memory.nbytes, 0)) == 0:
        weakref.finalize(memory, runtime.cudaHostUnregister, address).atexit = False
        return
    with suppress(RuntimeError):  # the next launch of a kernel reports the error, and clears it
        torch.ones(1, device='cuda')
