"""Calculate the memory of a training step without a GPU, by tensors without values.

The eager step runs on PyTorch's meta device. Not included: the CUDA context, workspaces of cuDNN,
buffers of NCCL and fragmentation. A GPU of 80 GB should therefore have a count of at most 72 GiB.
Of the compiled step, the forward and the backward graph are traced, and what the first one keeps
for the second one is counted. The memory that its kernels need in between is not included.

Example:
    python tools/benchmarks/memory.py configs/cvrl/pretrain_k400.py
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from mmaction.registry import MODELS
from mmengine.config import Config, DictAction
from mmengine.model import convert_sync_batchnorm
from mmengine.registry import init_default_scope
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.compile_fx import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import cvrl_mm  # noqa: F401  registers the models
from cvrl_cli import make_parser
from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.models.backbone import global_average_pool
from cvrl_mm.models.compiled import COMPILERS

GIB = 2**30
HALF_PRECISION = {'AutocastOptimWrapper': torch.bfloat16, 'AmpOptimWrapper': torch.float16}


class SampleShape(NamedTuple):
    """Number of clips, frames per clip, and height and width of the frames in pixels."""

    clips: int
    frames: int
    height: int
    width: int


def sample_shape(pipeline: Sequence[dict[str, Any]]) -> SampleShape:
    """Derive the shape of a sample of square frames from the steps of a pipeline for training."""
    clip = ClipInput.from_config(dict(feature_pipeline=pipeline))
    is_pair = any(step['type'].endswith('TemporalIntervalSample') for step in pipeline)
    return SampleShape(1 + is_pair, clip.clip_len, clip.size, clip.size)


class TrainingMemory(NamedTuple):
    """Bytes that a training step needs on each rank.

    Attributes:
        weights: Weights, gradients, DDP's copy of the gradients, the optimiser's state, and the
            copy of the weights in half precision.
        inputs: The uint8 batch.
        activations: Peak of all other tensors, including the normalised clips, during the
            forward and backward pass.
    """

    weights: int
    inputs: int
    activations: int


def training_memory(config: Config) -> TrainingMemory:
    """Count the memory of a training step by running it on the meta device.

    Tensors on the meta device have shapes but no values, so that the count takes seconds on a CPU
    for any batch size. Memory is counted per storage, from its creation until it is freed.

    Args:
        config: A training config of a recognizer with a 3D backbone.

    Returns:
        The memory per rank.
    """
    loader = config.train_dataloader
    shape = sample_shape(loader.dataset.pipeline)
    dtype = HALF_PRECISION.get(config.optim_wrapper.get('type'), torch.float32)
    videos = loader.batch_size
    values = 3 * shape.clips * shape.frames * shape.height * shape.width  # per video
    chunk = min(config.model.get('chunk_size') or videos, videos)

    with torch.device('meta'):
        network = MODELS.build({**config.model, 'data_preprocessor': None})
        clips = torch.empty(
            chunk * shape.clips, 3, shape.frames, shape.height, shape.width, dtype=dtype
        )
    weights = _weight_bytes(network, config.optim_wrapper.optimizer, dtype)
    peak = _peak_of_step(network.backbone.to(dtype), clips)
    return TrainingMemory(weights, values * videos, peak)


def _weight_bytes(network: nn.Module, optimizer: Mapping[str, Any], dtype: torch.dtype) -> int:
    """Count the weights, gradients and optimiser states, and their copies."""
    weights = sum(p.numel() for p in network.parameters())
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    states = 2 if 'Adam' in optimizer['type'] else int(optimizer.get('momentum', 0) > 0)
    copy = 0 if dtype == torch.float32 else 2
    return weights * (4 + copy) + trained * 4 * (1 + 1 + states)


def _peak_of_step(backbone: nn.Module, clips: Tensor) -> int:
    """Run the backbone forward and backward, and return the peak of the live storages."""
    for p in backbone.parameters():
        if p.requires_grad:  # _weight_bytes counts the gradients of weights
            p.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))
    with _LiveStorages(ignored=[*backbone.parameters(), *backbone.buffers()]) as live:
        live.add(clips)
        feats = global_average_pool(backbone(clips))
        if feats.requires_grad:
            feats.float().square().sum().backward()
    return live.peak


def compiled_graphs(config: Config) -> list[fx.GraphModule]:
    """Trace the compiled training pass of the backbone at full size.

    Batch norm is that of a rank of several if there is a process group.

    Args:
        config: A training config of a recognizer with a 3D backbone.

    Returns:
        The forward and the backward graph. Their nodes have tensors without values in
        ``meta['val']``.
    """
    shape = sample_shape(config.train_dataloader.dataset.pipeline)
    graphs: list[fx.GraphModule] = []

    def keep(graph: fx.GraphModule, inputs: object) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=keep,
        bw_compiler=keep,
        partition_fn=min_cut_rematerialization_partition,  # as Inductor
        decompositions=select_decomp_table(),
    )
    dtype = HALF_PRECISION.get(config.optim_wrapper.get('type'), torch.float32)
    with patch.dict(COMPILERS, cpu=dict(backend=backend)), FakeTensorMode():
        # Weights without values cannot change their layout
        network = MODELS.build({**config.model.backbone, 'channels_last': False})
        if dist.is_initialized():
            network = convert_sync_batchnorm(network)
        videos = config.train_dataloader.batch_size * shape.clips
        clips = torch.empty(videos, *shape[1:], 3, dtype=dtype).permute(0, 4, 1, 2, 3)
        with torch.autocast('cpu', dtype, enabled=dtype != torch.float32):
            feats = global_average_pool(network.train()(clips))
        feats.float().square().sum().backward()
    return graphs


def kept_tensors(forward: fx.GraphModule) -> list[Tensor]:
    """Return what a forward graph keeps for the backward pass, apart from its inputs."""
    outputs = [x for x in forward.graph.output_node().args[0] if isinstance(x, fx.Node)]
    values = {x: x.meta.get('val') for x in outputs if x.op != 'placeholder'}
    return [value for value in values.values() if isinstance(value, Tensor)]


class _LiveStorages(TorchDispatchMode):
    """Track the total size of the live storages that operations in its context create.

    Args:
        ignored: Tensors whose storages are not counted.

    Attributes:
        now: Size of the live storages in bytes.
        peak: Largest value of ``now``.
    """

    def __init__(self, ignored: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
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
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def main() -> None:
    """Read the command line and print the memory."""
    parser = make_parser(__doc__)
    parser.add_argument('config', help='training config')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    args = parser.parse_args()
    config = Config.fromfile(args.config)
    config.merge_from_dict(args.cfg_options)
    init_default_scope('mmaction')
    memory = training_memory(config)
    parts = ', '.join(f'{name} {size / GIB:.1f}' for name, size in memory._asdict().items())
    print(f'eager: {sum(memory) / GIB:.1f} GiB per rank ({parts})')
    if config.model.backbone.type == 'R3DSlow' and not config.model.get('chunk_size'):
        kept = sum(x.nbytes for x in kept_tensors(compiled_graphs(config)[0]))
        print(f'compiled: {kept / GIB:.1f} GiB of activations are kept for the backward pass')


if __name__ == '__main__':
    main()
