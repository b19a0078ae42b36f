"""Collate batches into one tensor in shared memory that the workers reuse."""

import io
import logging
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
from mmengine.logging import print_log
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
        ``inputs``: (N, …); ``data_samples``: a list of N samples.

    Raises:
        ValueError: The inputs cannot be stacked.
    """
    inputs = [sample['inputs'] for sample in samples]
    data_samples = [sample['data_samples'] for sample in samples]
    _check(inputs, data_samples)
    if get_worker_info() is None:
        return dict(inputs=torch.stack(inputs), data_samples=data_samples)
    layout = _Layout(inputs)
    buffer = _free_buffer(layout.num_bytes)
    torch.stack(inputs, out=layout.tensor(_data_of(buffer.memory, layout)))
    return dict(inputs=_Batch(buffer, layout), data_samples=_Packed(data_samples))


def _check(inputs: list[Any], data_samples: list[Any]) -> None:
    kinds: dict[object, str] = {}
    for x, sample in zip(inputs, data_samples, strict=True):
        kind = (str(x.dtype), tuple(x.shape)) if isinstance(x, Tensor) else type(x).__name__
        file = sample.get('filename', 'a sample without a file') if sample is not None else '-'
        kinds.setdefault(kind, str(file))
    if len(kinds) > 1 or not isinstance(inputs[0], Tensor):
        found = '; '.join(f'{kind} ({file})' for kind, file in kinds.items())
        raise ValueError(
            'stack_collate needs tensors of one shape and type as inputs of a batch, got '
            f'{found}. Resize and crop all videos to one size and end the pipeline with '
            "FormatShape and PackActionInputs, or set collate_fn=dict(type='pseudo_collate')."
        )


class _Layout:
    """Shape, type and memory order of a batch. The memory order is that of the first sample."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        first = inputs[0]
        order = sorted(range(first.ndim), key=first.stride, reverse=True)
        self.stored_shape = len(inputs), *(first.shape[dim] for dim in order)
        self.dims = 0, *(order.index(dim) + 1 for dim in range(first.ndim))
        self.dtype = first.dtype
        self.num_bytes = len(inputs) * first.nbytes

    def tensor(self, data: np.ndarray) -> Tensor:
        """Return a view of the data, (N, …)."""
        return torch.from_numpy(data).view(self.dtype).view(self.stored_shape).permute(self.dims)


class _Buffer:
    """Shared memory of a worker that holds one batch at a time."""

    serial = count()

    def __init__(self, num_bytes: int) -> None:
        self.memory = torch.empty(HEADER + num_bytes, dtype=torch.uint8).share_memory_()
        self.state = self.memory.numpy()[:1]
        self.key = os.getpid(), next(self.serial)
        self.was_sent = False


_own_buffers: list[_Buffer] = []  # the buffers of this worker


def _free_buffer(num_bytes: int) -> _Buffer:
    """Return a buffer that is not in use; create one if there is none."""
    fitting = (b for b in _own_buffers if len(b.memory) >= HEADER + num_bytes)
    buffer = next((b for b in fitting if not b.state[0]), None)
    if buffer is None:
        buffer = _Buffer(num_bytes)
        _own_buffers.append(buffer)
    buffer.state[0] = 1
    return buffer


def _data_of(memory: Tensor, layout: _Layout) -> np.ndarray:
    """Return a new array over the data in a buffer."""
    return memory.numpy()[HEADER : HEADER + layout.num_bytes]


class _Batch:
    """A stacked batch, which becomes a tensor when the training process unpickles it."""

    def __init__(self, buffer: _Buffer, layout: _Layout) -> None:
        self.buffer, self.layout = buffer, layout

    def __reduce__(self) -> tuple:
        memory = None if self.buffer.was_sent else self.buffer.memory
        self.buffer.was_sent = True
        return _receive, (self.buffer.key, memory, self.layout)


class _Packed:
    """Samples, which become a list when the training process unpickles them.

    Their tensors, such as labels, are sent by value, because torch would send each of them as
    shared memory with its own file descriptor.
    """

    def __init__(self, samples: list[Any]) -> None:
        stream = io.BytesIO()
        _Pickler(stream).dump(samples)
        self.content = stream.getvalue()

    def __reduce__(self) -> tuple:
        return pickle.loads, (self.content,)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if type(value) is Tensor and value.dtype in BY_VALUE and not value.requires_grad:
            return torch.from_numpy, (value.numpy(),)
        return NotImplemented


BY_VALUE = (torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64)

_mapped: dict[tuple[int, int], Tensor] = {}  # the workers' buffers, in the training process


def _receive(key: tuple[int, int], memory: Tensor | None, layout: _Layout) -> Tensor:
    """Return the batch in a worker's buffer, and free the buffer after its last reference."""
    if memory is not None:
        forget_ended_workers()
        _page_lock(memory)
        _mapped[key] = memory
    memory = _mapped[key]
    data = _data_of(memory, layout)  # the storage of the returned tensor refers to this array
    weakref.finalize(data, _release, memory.numpy()[:1]).atexit = False
    return layout.tensor(data)


def _release(state: np.ndarray) -> None:
    state[0] = 0


def forget_ended_workers() -> None:
    """Unmap the buffers of ended workers; batches with references remain mapped."""
    alive = {process.pid for process in active_children()}
    for key in [key for key in _mapped if key[0] not in alive]:
        del _mapped[key]


def _page_lock(memory: Tensor) -> None:
    """Page-lock a buffer, so that copies to the GPU can be asynchronous."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return
    runtime, address = torch.cuda.cudart(), memory.data_ptr()
    error = int(runtime.cudaHostRegister(address, memory.nbytes, 0))
    if error == 0:
        weakref.finalize(memory, runtime.cudaHostUnregister, address).atexit = False
        return
    with suppress(RuntimeError):  # the next launch of a kernel reports the error, and clears it
        torch.ones(1, device='cuda')
    print_log(
        f'Shared memory of the data loader ({memory.nbytes / 2**20:.0f} MiB) could not be '
        f'page-locked (CUDA error {error}); batches are copied to the GPU synchronously. '
        'Check the limit of locked memory (ulimit -l).',
        logger='current',
        level=logging.WARNING,
    )
