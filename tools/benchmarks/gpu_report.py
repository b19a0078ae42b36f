"""Measure pre-training on this machine: steps, memory, loader, a training.

Example:
    python tools/benchmarks/gpu_report.py --minutes 30 --out work_dirs/gpu_report
    python tools/benchmarks/gpu_report.py --out work_dirs/gpu_report --only 'step, eager'

The most important rows come first. Each row has its own process and a time limit. After each row,
OUT/results.json and OUT/report.md are written; rows of an earlier run in OUT are kept until they
are measured again. Without a GPU, all rows run with small inputs on the CPU. This only tests the
script; the figures are meaningless.
"""

import json
import math
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from rich.console import Console

import cvrl_mm
from cvrl_cli import make_parser
from cvrl_mm.io import replace_text, replacing
from cvrl_mm.processes import usable_cores

ROOT = Path(__file__).parents[2]
K400 = 'cvrl/pretrain_k400.py'
LARGEST = 'cvrl/pretrain_k600_r3d152_2x.py'
AUGMENTED = 'cvrl/pretrain_k400_device_augment.py'
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device('cuda' if ON_GPU else 'cpu')
SMALL = {
    'train_dataloader.batch_size': 4,
    'train_dataloader.dataset.pipeline.1.clip_len': 4,
    'train_dataloader.dataset.pipeline.3.transforms.1.scale': (32, 32),
    'model.backbone.depth': 18,
    'model.backbone.width': 0.125,
    'model.cls_head.in_channels': 64,
    'model.cls_head.hidden_channels': 16,
}
SPARE_SECONDS = 15  # for the imports before and for the end of the last process
# What torch and cuDNN say. The latter finds no algorithm when their buffers do not fit
OUT_OF_MEMORY = ('out of memory', 'unable to find an engine', 'ALLOC_FAILED')
STEPS, KILLED = (50, 20) if ON_GPU else (12, 2)  # of the training
TRAINING = f'training, {STEPS} steps'
NUM_VIDEOS = 32 if ON_GPU else 2  # files that the loader reads again and again


def load_config(name: str, **options: object) -> Any:
    """Load a config of the repository, with small sizes on a CPU."""
    from mmaction.utils import register_all_modules
    from mmengine.config import Config

    register_all_modules()
    config = Config.fromfile(ROOT / 'configs' / name)
    config.merge_from_dict(options if ON_GPU else SMALL | options)
    return config


def seconds(step: Callable[[], object]) -> float:
    """Return the time of one step until the device has finished it."""
    if ON_GPU:
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if ON_GPU:
        torch.cuda.synchronize()
    return time.perf_counter() - start


@contextmanager
def one_rank() -> Iterator[None]:
    """Form a group of one rank, in which batch norm and gradients use the kernels of several."""
    dist.init_process_group(
        'nccl' if ON_GPU else 'gloo', store=dist.HashStore(), rank=0, world_size=1
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


class TrainingStep:
    """A step of pre-training on random clips in the loader's layout, including the optimiser.

    Args:
        config: Config of a pre-training.
    """

    def __init__(self, config: Any) -> None:
        import memory
        from mmaction.registry import MODELS
        from mmengine.model import MMDistributedDataParallel, convert_sync_batchnorm
        from mmengine.optim import build_optim_wrapper

        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model = MODELS.build(config.model)
        self.model.init_weights()
        self.model = self.model.to(DEVICE).train()
        if dist.is_initialized():
            self.model.cls_head.equal_batches = True
            if ON_GPU:  # DDP refuses synchronised batch norm on a CPU
                self.model = convert_sync_batchnorm(self.model).train()
            self.model = MMDistributedDataParallel(
                self.model,
                device_ids=[0] if ON_GPU else None,
                broadcast_buffers=False,
            )
        self.optim_wrapper = build_optim_wrapper(self.model, config.optim_wrapper)
        self.shape = memory.sample_shape(config.train_dataloader.dataset.pipeline)

    def take(self, videos: int, seed: int = 0) -> Callable[[], float]:
        """Return a step on one random batch, which returns its loss."""
        from mmaction.structures import ActionDataSample

        generator = torch.Generator().manual_seed(seed)
        clips = torch.randint(256, (videos, *self.shape, 3), dtype=torch.uint8, generator=generator)
        clips = clips.permute(0, 1, 5, 2, 3, 4).to(DEVICE)  # as the training loop does

        def step() -> float:
            data = dict(inputs=clips, data_samples=[ActionDataSample() for _ in range(videos)])
            return float(self.model.train_step(data, self.optim_wrapper)['loss'])

        return step

    def measure(self, videos: int, steps: int) -> dict[str, Any]:
        """Time several steps with a number of videos, after two warm-up steps."""
        step = self.take(videos)
        first = seconds(step)  # includes cuDNN's search or the compilation
        step()
        if ON_GPU:
            torch.cuda.reset_peak_memory_stats()
        median = statistics.median(seconds(step) for _ in range(steps))
        result = dict(videos=videos, ms_per_step=1e3 * median, videos_per_second=videos / median)
        if ON_GPU:
            result['GiB'] = torch.cuda.max_memory_allocated() / 2**30
            result['reserved_GiB'] = torch.cuda.max_memory_reserved() / 2**30
        return dict(result, first_step_seconds=first)


def training_step(
    name: str = K400,
    ranks: bool = True,
    tuned: bool = False,
    gathers: bool = True,
    algorithms: int = 10,
    **options: object,
) -> dict[str, Any]:
    """Measure a step with the batch size of the config.

    Args:
        name: The config.
        ranks: As a rank of several, otherwise in one process.
        tuned: With Inductor's search for better kernels.
        gathers: With this package's backward pass of max pooling, otherwise with PyTorch's.
        algorithms: Number of algorithms that cuDNN tries for each convolution; 0 for all.
        options: Changes of the config.
    """
    from cvrl_mm.models import FrameMaxPool
    from cvrl_mm.models.compiled import COMPILERS

    config = load_config(name, **options)
    search = dict(coordinate_descent_tuning=True, max_autotune_pointwise=True) if tuned else {}
    compiler = dict(options=COMPILERS['cuda']['options'] | search)
    pool = FrameMaxPool.forward if gathers else torch.nn.MaxPool3d.forward
    torch.backends.cudnn.benchmark_limit = algorithms
    with (
        one_rank() if ranks else nullcontext(),
        patch.dict(COMPILERS, cuda=compiler),
        patch.object(FrameMaxPool, 'forward', pool),
    ):
        step = TrainingStep(config)
        return step.measure(config.train_dataloader.batch_size, steps=10 if ON_GPU else 2)


def losses() -> dict[str, Any]:
    """Compare twenty losses and the running variances after them, compiled against eager."""
    found, variances = [], []
    for compiled in (False, True):
        config = load_config(K400, **{'model.backbone.compiled': compiled})
        with one_rank():
            step = TrainingStep(config)
            batch = config.train_dataloader.batch_size
            found.append([step.take(batch, seed)() for seed in range(20 if ON_GPU else 2)])
            buffers = dict(step.model.named_buffers())
            variances.append({k: x.cpu() for k, x in buffers.items() if 'running_var' in k})
        del step, buffers
    largest = max(abs(a - b) for a, b in zip(*found, strict=True))
    drift = max(
        ((a - b) / b).abs().median() for a, b in zip(*(v.values() for v in variances), strict=True)
    )
    return dict(eager=found[0][-1], compiled=found[1][-1], largest=largest, drift=float(drift))


def bandwidth() -> dict[str, Any]:
    """Measure the TB/s of a copy and of compiled batch norm on the largest output of layer1."""
    x = torch.randn(256 if ON_GPU else 2, 256, 8, 56, 56, device=DEVICE, dtype=torch.bfloat16)
    x, k = x.contiguous(memory_format=torch.channels_last_3d), torch.randn(256, device=DEVICE)
    k, dims = k.view(-1, 1, 1, 1), (0, 2, 3, 4)
    kernels = dict(
        copy=(lambda x: x.clone(), 2),
        statistics=(lambda x: torch.var_mean(x.float(), dims, correction=0), 1),
        normalise=(lambda x: (x.float() * k + k).relu().to(x.dtype), 2),
        backward=(lambda x: (x.float().sum(dims), (x.float() * (x.float() - k)).sum(dims)), 1),
    )
    rates = {}
    for name, (kernel, passes) in kernels.items():
        run = torch.compile(kernel) if ON_GPU else kernel
        rates[name] = passes * x.nbytes / _best_ms(partial(run, x)) / 1e9
    return rates


def convolutions() -> dict[str, Any]:
    """Measure the backbone's convolutions alone, forward and backward, in ms per step.

    Each distinct one is also measured as a 2D convolution of views (:func:`_as_2d`), those with
    1x1x1 kernels as matrix products, and the stem as a convolution of 24 channels, which are the
    2x2x2 blocks of the clips.
    """
    import memory
    from mmaction.registry import MODELS

    config, found = load_config(K400), Counter()
    shape = memory.sample_shape(config.train_dataloader.dataset.pipeline)
    videos = config.train_dataloader.batch_size

    def note(conv: torch.nn.Module, inputs: tuple[torch.Tensor], _: object) -> None:
        found[inputs[0].shape, conv.weight.shape, conv.stride, conv.padding] += 1

    with torch.device('meta'), torch.no_grad():
        backbone = MODELS.build(config.model.backbone).eval()
        for module in backbone.modules():
            if isinstance(module, torch.nn.Conv3d):
                module.register_forward_hook(note)
        backbone(torch.empty(shape.clips * videos, 3, *shape[1:]))
    torch.backends.cudnn.benchmark = True
    ms, each = Counter(), {}
    for (inputs, kernel, stride, padding), number in found.items():
        one = number * _convolution_ms(inputs, kernel, stride, padding)
        views = _as_2d(inputs, kernel, stride, padding)
        in_2d = number * _convolution_ms(*views) if views else one
        ms['all'] += one
        ms['all as 2D'] += in_2d
        sizes = ['x'.join(map(str, x)) for x in (kernel[2:], stride, inputs[2:])]
        name = '{} kernel, stride {}, clips of {}'.format(*sizes)
        each[f'{name}, {kernel[1]} to {kernel[0]}'] = f'{one:.2f} (2D {in_2d:.2f})'
        if kernel[1] == 3:
            ms['stem'] += one
            blocks = (24, *(size // 2 + 3 - (i == 0) for i, size in enumerate(inputs[2:])))
            as_blocks = (inputs[0], *blocks), (kernel[0], 24, 3, 4, 4), (1, 1, 1), (0, 0, 0)
            ms['stem of blocks'] += number * _convolution_ms(*as_blocks)
        if (kernel[2:], stride) == ((1, 1, 1), (1, 1, 1)):
            ms['1x1x1'] += one
            ms['1x1x1 as products'] += number * _product_ms(inputs, kernel)
    return dict(ms, **each)


def _as_2d(
    inputs: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[Sequence[int], ...] | None:
    """Return sizes of the same convolution in 2D, or None if it has none without copies.

    1xkxk kernels see frames, kx1x1 kernels (T, H * W), and the stem frames of 16 channels, 15 of
    which are five neighbouring frames.
    """
    n, c, t, h, w = inputs
    out, _, kt, kh, kw = kernel
    if kt == stride[0] == 1:
        return (n * t, c, h, w), (out, c, kh, kw), stride[1:], padding[1:]
    if (kh, kw) == (1, 1):
        return (n, c, t, h * w), (out, c, kt, 1), (stride[0], 1), (padding[0], 0)
    if c == 3:
        return (n * t // stride[0], 16, h, w), (out, 16, kh, kw), stride[1:], padding[1:]
    return None


def _convolution_ms(
    inputs: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> float:
    is_3d = len(stride) == 3
    layout = torch.channels_last_3d if is_3d else torch.channels_last
    x, w = (
        torch.randn(*sizes, device=DEVICE, dtype=torch.bfloat16).contiguous(memory_format=layout)
        for sizes in (inputs, kernel)
    )
    masks = (inputs[1] > 24, True, False)  # the clips need no gradient
    convolve = torch.nn.functional.conv3d if is_3d else torch.nn.functional.conv2d
    ones, zeros = [1] * len(stride), [0] * len(stride)

    def run() -> torch.Tensor:
        return convolve(x, w, None, stride, padding)

    grad = torch.ones_like(run())

    def run_backward() -> None:
        torch.ops.aten.convolution_backward(
            grad, x, w, None, stride, padding, ones, False, zeros, 1, masks
        )

    return _best_ms(run) + _best_ms(run_backward)


def errors_of_bfloat16() -> dict[str, Any]:
    """Compare a large convolution, the stem, in bfloat16 with float32 (pytorch#163539)."""
    torch.backends.cudnn.allow_tf32 = False
    x = torch.randn(128 if ON_GPU else 1, 3, *((32, 256, 256) if ON_GPU else (4, 8, 8)))
    x, w = x.to(DEVICE), torch.randn(64, 3, 5, 7, 7, device=DEVICE)
    expected, found = torch.conv3d(x, w, None, (2, 2, 2), (2, 3, 3)), {}
    for layout in (torch.contiguous_format, torch.channels_last_3d):
        half = (y.to(torch.bfloat16, memory_format=layout) for y in (x, w))
        out = torch.conv3d(*half, None, (2, 2, 2), (2, 3, 3))
        found[str(layout)] = float((out - expected).norm() / expected.norm())
    return found


def _product_ms(inputs: Sequence[int], kernel: Sequence[int]) -> float:
    rows = inputs[0] * math.prod(inputs[2:])
    sizes = (rows, kernel[1]), (rows, kernel[0]), (kernel[0], kernel[1])
    x, grad, w = (torch.randn(*size, device=DEVICE, dtype=torch.bfloat16) for size in sizes)
    return _best_ms(lambda: x @ w.T) + _best_ms(lambda: (grad @ w, grad.T @ x))


def _best_ms(run: Callable[[], object]) -> float:
    run()
    return 1e3 * min(seconds(run) for _ in range(5))


def operations() -> dict[str, Any]:
    """Measure the thirty operations whose kernels take most of a step, in ms per step.

    Before it, the first step of a process that finds the compiled code of an earlier one.
    """
    config = load_config(K400)
    videos = config.train_dataloader.batch_size
    with one_rank():
        step = TrainingStep(config)
        first = step.measure(videos, steps=1)['first_step_seconds']
        with torch.profiler.profile() as profiler:
            step.measure(videos, steps=1)  # after two warm-up steps
    time_of = 'self_device_time_total' if ON_GPU else 'self_cpu_time_total'
    times = {
        event.key: getattr(event, time_of) / 3e3
        for event in profiler.key_averages()
        if event.device_type.name == 'CPU' and not event.is_user_annotation
    }
    largest = sorted(times.items(), key=lambda item: -item[1])[:30]
    return dict(first_step_seconds=first, **dict(largest))


@dataclass(frozen=True)
class Videos:
    """What the loader reads.

    Attributes:
        folder: Where generated and repacked videos and the lists are written.
        source: A folder of videos of the user; without it, videos are generated.
    """

    folder: Path
    source: Path | None = None

    def write_list(self, kind: str, length: int) -> Path:
        """Write a list of original or repacked videos, and the videos unless they exist."""
        from cvrl_mm.datasets.lists import find_videos
        from cvrl_mm.options import RepackSettings
        from cvrl_mm.preparation.repack import repack_video

        originals = [self.folder / f'original_{i}.mp4' for i in range(NUM_VIDEOS)]
        if self.source is not None:
            originals = find_videos(self.source)[:NUM_VIDEOS]
        pairs = [(path, self.folder / f'repacked_{path.stem}.mp4') for path in originals]

        def prepare(original: Path, repacked: Path) -> None:
            if not original.exists():
                _write_video(original)
            if kind == 'repacked' and not repacked.exists():
                repack_video(original, repacked, RepackSettings())

        with ThreadPoolExecutor(usable_cores()) as pool:
            list(pool.map(prepare, *zip(*pairs, strict=True)))
        videos = [pair[kind == 'repacked'].resolve() for pair in pairs]
        path = self.folder / f'{kind}_{length}.txt'
        path.write_text(''.join(f'{videos[i % len(videos)]}\n' for i in range(length)))
        return path


def _write_video(path: Path) -> None:
    """Write a moving texture in H.264, of the usual size of Kinetics."""
    import av
    import cv2
    import numpy as np

    frames, (width, height) = (250, (340, 256)) if ON_GPU else (30, (68, 52))
    rng = np.random.default_rng(0)
    texture = cv2.resize(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8), (2 * width,) * 2)
    # A row that is ended leaves no cut video
    with replacing(path) as part, av.open(str(part), 'w') as container:
        stream = container.add_stream('libx264', rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, 'yuv420p'
        for t in range(frames):
            image = np.ascontiguousarray(np.roll(texture, 3 * t, 1)[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())


def loader_rate(videos: Videos, kind: str, workers: int) -> dict[str, Any]:
    """Measure the videos per second of the training loader with a number of workers."""
    from mmengine.runner import Runner
    from mmengine.utils.dl_utils import set_multi_processing

    batch, measured = (16, 10.0) if ON_GPU else (4, 0.2)
    options = {
        'train_dataloader.dataset.ann_file': str(videos.write_list(kind, 100_000)),
        'train_dataloader.dataset.data_prefix.video': '/',
        'train_dataloader.batch_size': batch,
        'train_dataloader.num_workers': workers,
    }
    config = load_config(K400, **options)
    set_multi_processing(**config.env_cfg.mp_cfg)  # OpenCV would start a thread per core and worker
    loader = Runner.build_dataloader(config.train_dataloader, seed=0)
    batches = iter(loader)
    for _ in islice(batches, workers):  # the first batch of each worker
        pass
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < measured:
        next(batches)
        count += batch
    return dict(videos_per_second=count / (time.perf_counter() - start))


def training(videos: Videos, workers: int) -> dict[str, Any]:
    """Run ``tools/train.py``, kill it, resume it, and read the speed from the second log."""
    batch = load_config(K400).train_dataloader.batch_size
    options = {} if ON_GPU else {k: str(v).replace(' ', '') for k, v in SMALL.items()}
    options |= {
        'train_dataloader.dataset.ann_file': videos.write_list('original', STEPS * batch),
        'train_dataloader.dataset.data_prefix.video': '/',
        'train_dataloader.num_workers': workers,
        'train_cfg.max_epochs': 1,
        'default_hooks.logger.interval': max(STEPS // 5, 1),
        'default_hooks.checkpoint.interval': KILLED,
        'default_hooks.checkpoint.by_epoch': False,
    }
    command = [sys.executable, ROOT / 'tools/train.py', ROOT / 'configs' / K400]
    command += ['--cfg-options', *(f'{key}={value}' for key, value in options.items())]
    with tempfile.TemporaryDirectory(dir=videos.folder) as work_dir:
        command += ['--work-dir', work_dir, '--resume']
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with subprocess.Popen(command, cwd=ROOT, **quiet) as killed:
            while killed.poll() is None and not list(Path(work_dir).glob('iter_*.pth')):
                time.sleep(0.02)
            killed.kill()
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            lines = done.stderr.splitlines() or ['']
            error = ([line for line in lines if 'Error' in line] or lines)[-1]
            raise RuntimeError(f'tools/train.py ended with {done.returncode}: {error}')
        log = max(Path(work_dir).glob('*/vis_data/scalars.json'))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    first, *_, last = [line for line in lines if 'time' in line]  # means over several steps
    return dict(
        first_logged=first['step'],
        steps=last['step'],
        loss=last['loss'],
        videos_per_second=batch / last['time'],
        waiting_for_data=last['data_time'] / last['time'],
    )


def describe_machine() -> dict[str, Any]:
    """Describe the machine and the versions."""
    gpu = torch.cuda.get_device_properties(0) if ON_GPU else None
    versions = dict(torch=torch.__version__, cuda=torch.version.cuda, cvrl_mm=cvrl_mm.__version__)
    memory = gpu and gpu.total_memory / 2**30
    cudnn = torch.backends.cudnn.version()
    return dict(gpu=gpu and gpu.name, gpu_GiB=memory, cores=usable_cores(), cudnn=cudnn, **versions)


@dataclass(frozen=True)
class Row:
    """A row of the report.

    Attributes:
        function: What measures it.
        arguments: Its arguments.
        limit: Time limit in seconds.
    """

    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    limit: float = 120


def rows(videos: Videos) -> dict[str, Row]:
    """List all rows in the order of what they decide: step, training, loader."""
    workers = min(usable_cores(), 16) if ON_GPU else 1
    eager = {'model.backbone.compiled': False}
    kept = {'model.backbone.recompute': {}}
    chunks = {'model.chunk_size': 16 if ON_GPU else 2}
    found = {
        'step, eager': Row(training_step, eager),
        'step': Row(training_step, limit=240),
        'operations, ms': Row(operations, limit=240),
        'losses': Row(losses, limit=300),
        'step, pooling of PyTorch': Row(training_step, dict(gathers=False), 240),
        'step, tuned': Row(training_step, dict(tuned=True), 400),
        'bandwidth, TB/s': Row(bandwidth),
        'bfloat16, relative errors': Row(errors_of_bfloat16),
        'convolutions, ms': Row(convolutions, limit=240),
        'step, all algorithms of cuDNN': Row(training_step, dict(algorithms=0), 300),
        TRAINING: Row(training, dict(videos=videos, workers=workers), 400),
        'step, R3D-152 2x': Row(training_step, dict(name=LARGEST), 400),
        'step, in one process': Row(training_step, dict(ranks=False), 240),
        'step, nothing recomputed': Row(training_step, kept, 240),
        'step, device augmentation': Row(training_step, dict(name=AUGMENTED), 240),
    }
    for kind in ('original', 'repacked'):
        for count in (16, 8, 4) if ON_GPU else (1,):
            arguments = dict(videos=videos, kind=kind, workers=count)
            found[f'loader, {kind}, {count} workers'] = Row(loader_rate, arguments, 60)
    found['step, chunks'] = Row(training_step, chunks)
    return found


def run_row(row: Row) -> dict[str, Any]:
    """Run one row in this process; an error, such as running out of memory, is a result."""
    try:
        torch.cuda.empty_cache()
        return row.function(**row.arguments)
    except Exception as error:
        if any(words in str(error) for words in OUT_OF_MEMORY):
            return dict(outcome='out of memory')
        return dict(outcome=f'{type(error).__name__}: {error}'.splitlines()[0])


def send_row(results: Connection, name: str, videos: Videos) -> None:
    """Run a row in this process, and send its result."""
    os.setsid()  # a group with all processes that the row starts
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    results.send(run_row(rows(videos)[name]))


def measure(name: str, videos: Videos, seconds: float) -> dict[str, Any] | None:
    """Run a row in a new process, because after an error of CUDA all later calls fail.

    Args:
        name: Name of the row.
        videos: What the loader reads.
        seconds: Time that is left; a row that has not ended after it has no result.
    """
    limit = rows(videos)[name].limit
    context = multiprocessing.get_context('spawn')
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_row, args=(sender, name, videos))
    process.start()
    sender.close()
    try:
        if receiver.poll(min(limit, seconds)):
            return receiver.recv()
        return dict(outcome=f'ended after {limit:.0f} s') if limit < seconds else None
    except EOFError:
        process.join()
        return dict(outcome=f'the process ended with {process.exitcode}')
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def text(result: dict[str, Any]) -> str:
    """Format a result."""

    def value(x: object) -> str:
        if isinstance(x, float):
            return f'{x:.3g}' if abs(x) < 100 else f'{x:.0f}'
        return 'not measured' if x is None else str(x)

    values = ', '.join(f'{key} {value(x)}' for key, x in result.items())
    return str(result.get('outcome', values)).replace('|', '/')  # separates columns in Markdown


def summary(results: dict[str, dict[str, Any]]) -> str:
    """Compare the videos per second of the finished rows with those of the step."""
    rates = {name: result.get('videos_per_second', 0.0) for name, result in results.items()}
    if not (step := rates.pop('step', 0.0)):
        return 'The step was not measured, so that nothing can be compared with it.'
    said = [f'{name}: {rate / step:.2f} x.' for name, rate in rates.items() if rate]
    if (waiting := results.get(TRAINING, {}).get('waiting_for_data')) is not None:
        said.append(f'A training waited for data {waiting:.0%} of the time.')
    return f'The step: {step:.0f} videos/s. Others, relative to it: {" ".join(said)}'


def write(out: Path, machine: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    """Write both files; an interruption does not damage existing ones."""
    lines = ['# Pre-training on this machine', '', text(machine), '']
    if not machine.get('gpu'):
        lines += ['**No GPU: all rows ran with small inputs; the figures are meaningless.**', '']
    lines += ['| measurement | result |', '|---|---|']
    lines += [f'| {name} | {text(result)} |' for name, result in results.items()]
    lines += ['', summary(results), '']
    results_json = json.dumps(dict(machine=machine, results=results), indent=1)
    replace_text(out / 'results.json', results_json)
    replace_text(out / 'report.md', '\n'.join(lines))


def main() -> None:
    """Run the rows until the time limit."""
    parser = make_parser(__doc__)
    parser.add_argument('--minutes', type=float, default=8, help='time for everything')
    parser.add_argument('--out', type=Path, required=True, help='folder of the results')
    parser.add_argument('--videos', type=Path, help='folder of real videos (default: generated)')
    parser.add_argument('--only', metavar='ROW', help='measure this row alone')
    args = parser.parse_args()
    deadline = time.monotonic() + 60 * args.minutes - SPARE_SECONDS
    (folder := args.out.resolve() / 'videos').mkdir(parents=True, exist_ok=True)
    videos = Videos(folder, args.videos)
    found = rows(videos)
    if args.only and args.only not in found:
        parser.error(f'--only must be one of: {"; ".join(found)}')
    machine, results = describe_machine(), {}
    with suppress(OSError, ValueError, KeyError):
        earlier = json.loads((args.out / 'results.json').read_text('utf-8'))
        if earlier['machine'] != json.loads(json.dumps(machine)):
            parser.error(f'{args.out} has results of another machine or other versions.')
        results = earlier['results']
    names = [args.only] if args.only else [*found]
    for name in names:
        left = deadline - time.monotonic()
        if left > 0 and (result := measure(name, videos, left)) is not None:
            results[name] = result
            results = {name: results[name] for name in found if name in results}
            write(args.out, machine, results)
            Console().print(f'{name}: {text(result)}', highlight=False)
    if missing := [name for name in names if name not in results]:
        Console().print(f'Not measured in this time: {"; ".join(missing)}.')
    Console().print(f'\n{summary(results)}\nWritten to {args.out / "report.md"}.')


if __name__ == '__main__':
    main()
