"""Estimation of the memory of a training step without a GPU."""

import copy
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from cvrl_mm.datasets.sample_shape import sample_shape

from .backbone import MAX_ELEMENTS, global_average_pool

GIB = 2**30
# Largest share of a GPU's memory that a step may use by this count: 72 GiB on a GPU with 80 GB.
# The CUDA context, workspaces of cuDNN, buffers of NCCL and fragmentation are not counted.
USABLE_SHARE = 0.91
# Options of the model that save memory, in the order of the additional time that they need
SAVINGS: tuple[dict[str, Any], ...] = (
    dict(backbone=dict(recompute=dict(layer1=3))),
    dict(backbone=dict(recompute=dict(stem=1, layer1=2, layer2=2))),
    dict(backbone=dict(recompute=dict(stem=1, layer1=2, layer2=2, layer3=4))),
    *(dict(chunk_size=size) for size in (32, 16, 8, 4, 2)),
)
HALF_PRECISION = {'AutocastOptimWrapper': torch.bfloat16, 'AmpOptimWrapper': torch.float16}


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a training step needs on each rank.

    Attributes:
        weights: Weights, gradients, DDP's copy of the gradients, the optimiser's state, and the
            copy of the weights in half precision.
        inputs: The uint8 batch.
        activations: Peak of all other tensors, including the normalised clips, during the
            forward and backward pass.
        largest_tensor: Elements of the largest tensor among them.
    """

    weights: int
    inputs: int
    activations: int
    largest_tensor: int

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.weights + self.inputs + self.activations

    def __str__(self) -> str:
        names = ('weights', 'inputs', 'activations')
        parts = (f'{name} {getattr(self, name) / GIB:.1f}' for name in names)
        return f'{self.total / GIB:.1f} GiB ({", ".join(parts)})'


def training_memory(config: Config) -> TrainingMemory | None:
    """Count the memory of a training step by running it on the meta device.

    Tensors on the meta device have shapes but no values, so that the count takes seconds on a CPU
    for any batch size. Memory is counted per storage, from its creation until it is freed.

    Args:
        config: A training config of a recognizer.

    Returns:
        The memory per rank, or None if the model is not a recognizer with a 3D backbone or the
        size of a sample cannot be derived from the pipeline.
    """
    loader = config.train_dataloader
    if config.model.get('type') not in ('CVRL', 'Recognizer3D'):
        return None
    shape = sample_shape(loader.dataset.pipeline) if 'pipeline' in loader.dataset else None
    if shape is None:
        return None
    dtype = HALF_PRECISION.get(config.optim_wrapper.get('type'), torch.float32)
    videos = loader.batch_size
    values = 3 * shape.clips * shape.frames * shape.height * shape.width  # per video
    chunk = min(config.model.get('chunk_size') or videos, videos)

    if not hasattr(torch, 'meta'):  # where torch 2.4 looks for the device of a recomputation
        torch.meta = torch.cpu  # type: ignore[attr-defined]
    with torch.device('meta'):
        network = MODELS.build({**config.model, 'data_preprocessor': None})
        clips = torch.empty(
            chunk * shape.clips, 3, shape.frames, shape.height, shape.width, dtype=dtype
        )
    weights = _weight_bytes(network, config.optim_wrapper.optimizer, dtype)
    live = _run_step(network.backbone.to(dtype), clips)
    return TrainingMemory(weights, values * videos, live.peak, live.largest)


def exceeds_indices(config: Config, memory: TrainingMemory) -> bool:
    """Return whether SyncBatchNorm would index a tensor of a training with too few bits.

    Args:
        config: The training config.
        memory: Its memory.
    """
    channels_last = config.model.backbone.get('channels_last', False)
    return bool(channels_last and config.get('sync_bn') and memory.largest_tensor >= MAX_ELEMENTS)


def memory_saving(config: Config, limit: float) -> tuple[dict[str, Any], TrainingMemory] | None:
    """Find the fastest options with which a training config fits into memory.

    Args:
        config: A training config of :class:`CVRL` that needs more than ``limit``.
        limit: Available memory in bytes.

    Returns:
        Options of the model's config, nested as in the config, and the memory that is then
        needed; None if no option saves enough.
    """
    for saving in SAVINGS:
        if 'chunk_size' in saving and config.model.type != 'CVRL':
            continue  # other recognizers have no chunks
        changed = copy.deepcopy(config)
        changed.model.backbone.update(saving.get('backbone', {}))
        changed.model.update({k: v for k, v in saving.items() if k != 'backbone'})
        memory = training_memory(changed)
        if memory is not None and memory.total <= limit:
            return saving, memory
    return None


def memory_advice(config: Config, limit: float) -> str:
    """Return a sentence that says which options let a training config fit into memory.

    Args:
        config: A training config of :class:`CVRL` that needs more than ``limit``.
        limit: Available memory in bytes.
    """
    found = memory_saving(config, limit)
    if found is None:
        return 'lower train_dataloader.batch_size and train with --auto-scale-lr'
    saving, memory = found
    options = ' '.join(f'model.{path}={value}' for path, value in _flat(saving))
    note = ' (batch norm then sees one chunk)' if 'chunk_size' in saving else ''
    return f'set --cfg-options {options}, which needs {memory.total / GIB:.1f} GiB{note}'


def _flat(options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested options with their dotted paths."""
    for name, value in options.items():
        if isinstance(value, dict):
            yield from ((f'{name}.{path}', inner) for path, inner in _flat(value))
        else:
            yield name, value


def _weight_bytes(network: nn.Module, optimizer: Mapping[str, Any], dtype: torch.dtype) -> int:
    """Count the weights, gradients and optimiser states, and their copies."""
    weights = sum(p.numel() for p in network.parameters())
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    states = 2 if 'Adam' in optimizer['type'] else int(optimizer.get('momentum', 0) > 0)
    copy = 0 if dtype == torch.float32 else 2
    return weights * (4 + copy) + trained * 4 * (1 + 1 + states)


def _run_step(backbone: nn.Module, clips: Tensor) -> '_LiveStorages':
    """Run the backbone forward and backward and track the storages."""
    for p in backbone.parameters():
        if p.requires_grad:  # _weight_bytes counts the gradients of weights
            p.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))
    with _LiveStorages(ignored=[*backbone.parameters(), *backbone.buffers()]) as live:
        live.add(clips)
        feats = global_average_pool(backbone(clips))
        if feats.requires_grad:
            feats.float().square().sum().backward()
    return live


class _LiveStorages(TorchDispatchMode):
    """Track the total size of the live storages that operations in its context create.

    Args:
        ignored: Tensors whose storages are not counted.

    Attributes:
        now: Size of the live storages in bytes.
        peak: Largest value of ``now``.
        largest: Elements of the largest tensor.
    """

    def __init__(self, ignored: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = self.largest = 0
        self.known = {x.untyped_storage()._cdata for x in ignored}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in tree_flatten(out)[0]:
            if isinstance(x, Tensor):
                self.add(x)
        return out

    def add(self, x: Tensor) -> None:
        """Count a tensor's storage unless it has been counted already."""
        storage = x.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.largest = max(self.largest, x.numel())
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size
