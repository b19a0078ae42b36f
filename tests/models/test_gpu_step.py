"""A training step without a GPU, on fake CUDA tensors and with stubs of the CUDA runtime."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.model import convert_sync_batchnorm
from mmengine.optim import build_optim_wrapper
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from cvrl_mm.augmentation import photometric
from tests.processes import run_program
from tools.benchmarks.memory import GIB, _LiveStorages, sample_shape

ROOT = Path(__file__).parents[2]
MAIN, AUGMENTED = 'cvrl/pretrain_k400', 'cvrl/pretrain_k400_device_augment'


@pytest.fixture(scope='module')
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What the steps of both configs do, from a process of their own."""
    compiler = shutil.which('cc')
    if compiler is None or torch.version.cuda is None or torch.__version__ < '2.15':
        pytest.skip('needs a C compiler and a recent torch for CUDA')
    stubs = tmp_path_factory.mktemp('stubs') / 'libcuda.so.1'
    source = Path(__file__).with_name('no_gpu.c')
    build = [compiler, '-shared', '-fPIC', f'-Wl,-soname,{stubs.name}', '-o', stubs, source]
    assert run_program(build).returncode == 0
    env = {**os.environ, 'LD_PRELOAD': str(stubs), 'CUDA_VISIBLE_DEVICES': '0'}
    command = [sys.executable, '-m', 'tests.models.test_gpu_step', MAIN, AUGMENTED]
    done = run_program(command, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize('name', [MAIN, AUGMENTED])
def test_all_convolutions_are_channels_last(steps: dict[str, dict], name: str):
    layouts = steps[name]['convolutions']
    assert len(layouts) >= 3 * 53 and all(layouts)


@pytest.mark.parametrize('name, others', [(MAIN, 0), (AUGMENTED, 1)])  # the drawn parameters
def test_only_the_batch_is_copied(steps: dict[str, dict], name: str, others: int):
    copies = steps[name]['copies']
    assert [128, 2, 3, 16, 224, 224] in copies and len(copies) == 1 + others


def test_the_main_config_moves_few_bytes_and_fits_into_80_gb(steps: dict[str, dict]):
    assert 900e9 < steps[MAIN]['bytes'] <= 1000e9
    assert 60 * GIB < steps[MAIN]['peak'] <= 72 * GIB


class Watch(_LiveStorages):
    """Note what operations on the GPU do.

    Attributes:
        convolutions: For each 3D convolution and each large tensor that it reads, forward and
            backward, whether it is channels last and small enough for 32-bit indices.
        copies: Shapes of the tensors that are copied from or to the device.
        bytes: Bytes that operations read and write.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.convolutions: list[bool] = []
        self.copies: list[tuple[int, ...]] = []
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        name = func.overloadpacket.__name__
        tensors = [x for x in tree_leaves((args, kwargs, out)) if isinstance(x, Tensor)]
        on_gpu = [x for x in tensors if x.is_cuda]
        on_host = [x for x in tensors if not x.is_cuda and (x.ndim or 'copy' in name)]
        if on_gpu and on_host:  # kernels take other scalars of the host as arguments
            self.copies.append(tuple(tensors[0].shape))
        read = []
        if name.startswith('convolution') and args[0].ndim == 5:
            read = args[:2] if name == 'convolution_backward' else args[:1]
        for x in read:
            is_last = x.is_contiguous(memory_format=torch.channels_last_3d)
            self.convolutions.append(is_last and x.numel() < 2**31)
        if len(read) == 2 and args[-1][0]:  # two kernels read the output's gradient
            on_gpu.append(read[0])
        is_view = func.is_view or func.namespace != 'aten' or 'empty' in name
        if not is_view and 'gather_stats' not in name:  # which uses only the type of the batch
            self.bytes += sum(x.numel() * x.element_size() for x in on_gpu)
        return out


def run_step(name: str) -> dict:
    """Run a step as one of eight ranks. Operations that read values of the device raise."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    cfg = Config.fromfile(ROOT / f'configs/{name}.py')
    with torch.device('meta'):
        model = MODELS.build(cfg.model)
    model.data_preprocessor = MODELS.build(cfg.model.data_preprocessor)
    model.data_preprocessor.in_chunks = model.chunk_size is not None
    model = convert_sync_batchnorm(model).train()
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for key, value in [*module.named_parameters(recurse=False)]:
                setattr(module, key, nn.Parameter(torch.empty_like(value, device='cuda')))
            for key, value in [*module.named_buffers(recurse=False)]:
                setattr(module, key, torch.empty_like(value, device='cuda'))
        model.data_preprocessor._device = torch.device('cuda:0')
        model.cls_head.equal_batches = True
        optim_wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
        clips, *shape = sample_shape(cfg.train_dataloader.dataset.pipeline)
        videos = cfg.train_dataloader.batch_size
        inputs = torch.empty(videos, clips, *shape, 3, dtype=torch.uint8).movedim(-1, 2)
        samples = [ActionDataSample() for _ in range(videos)]
        with Watch() as watch:
            for weight in model.parameters():
                watch.add(weight)
            model.train_step(dict(inputs=inputs, data_samples=samples), optim_wrapper)
    return {key: getattr(watch, key) for key in ('convolutions', 'copies', 'bytes', 'peak')}


def main() -> None:
    """Run the steps of the named configs, such as cvrl/pretrain_k400."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    register_all_modules()
    dist.init_process_group('fake', store=FakeStore(), rank=0, world_size=8)
    kernels = torch.library.Library('aten', 'IMPL', 'Meta')

    def channels(x: Tensor, count: int) -> tuple[Tensor, ...]:
        return tuple(x.new_empty(x.shape[1], dtype=torch.float32) for _ in range(count))

    kernels.impl('batch_norm_stats', lambda x, eps: channels(x, 2))
    kernels.impl('batch_norm_gather_stats_with_counts', lambda x, *args: channels(x, 2))
    kernels.impl('batch_norm_elemt', lambda x, *args: torch.empty_like(x))
    kernels.impl('batch_norm_backward_reduce', lambda dy, *args: channels(dy, 4))
    kernels.impl('batch_norm_backward_elemt', lambda dy, x, *args: torch.empty_like(x))
    with (
        patch('torch.distributed.get_backend', return_value='nccl'),
        patch('torch.Tensor.pin_memory', lambda x: x),
        patch('torch.randint', return_value=0),  # the seed of the augmentation
        patch.object(photometric, 'pointwise_on', lambda device: photometric._pointwise),
    ):
        print(json.dumps({name: run_step(name) for name in sys.argv[1:]}))


if __name__ == '__main__':
    main()
