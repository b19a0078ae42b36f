"""The measurements of ``gpu_report.py``; each one runs in a separate process.

Without a GPU, they run with small inputs on the CPU, which only tests them.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import av
import cv2
import numpy as np
import torch
import transport
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.runner import Runner
from torch.utils.flop_counter import FlopCounterMode

import cvrl_mm
from cvrl_mm.io import usable_cores
from cvrl_mm.preparation.repack_video import RepackSettings, repack_video

register_all_modules()
ROOT = Path(__file__).parents[2]
SMALL = {
    'train_dataloader.batch_size': 4,
    'train_dataloader.dataset.pipeline.1.clip_len': 4,
    'train_dataloader.dataset.pipeline.3.transforms.1.scale': (32, 32),
    'model.backbone.depth': 18,
    'model.backbone.width': 0.125,
    'model.cls_head.in_channels': 64,
    'model.cls_head.hidden_channels': 16,
}
STOCK = dict(
    _delete_=True,
    type='ResNet3dSlowOnly',
    conv1_kernel=(5, 7, 7),
    conv1_stride_t=2,
    pretrained=None,
)
LAYOUTS = ('loader', 'contiguous', 'channels_last')


def on_gpu() -> bool:
    """Return whether there is a GPU."""
    return torch.cuda.is_available()


def device() -> torch.device:
    """Return the measured device."""
    return torch.device('cuda' if on_gpu() else 'cpu')


def configuration(name: str, options: dict) -> Config:
    """Load a config of the repository, with small sizes on a CPU."""
    config = Config.fromfile(ROOT / 'configs' / name)
    config.merge_from_dict({**({} if on_gpu() else SMALL), **options})
    return config


def seconds(step: Callable[[], object]) -> float:
    """Return the time of one step on the clock of the device."""
    if not on_gpu():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start_event.record()
    step()
    end_event.record()
    end_event.synchronize()
    return start_event.elapsed_time(end_event) / 1000


class TrainingStep:
    """A step of pre-training on random clips, including the optimiser.

    Args:
        config: Config of a pre-training.
        layout: Memory layout. ``loader``: clips as the loader returns them (channels last) and a
            contiguous network. ``contiguous``: both contiguous. ``channels_last``: both channels
            last.
        compiled: Whether to compile the backbone. Activations are then not recomputed.
    """

    def __init__(self, config: Config, layout: str = 'loader', compiled: bool = False) -> None:
        if layout == 'channels_last':
            config.merge_from_dict({'model.backbone.channels_last': True})
        if compiled:  # torch.compile does not support the contexts of recomputed stages
            config.model.backbone['recompute'] = {}
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model = MODELS.build(config.model).to(device()).train()
        if compiled:
            backend = 'inductor' if on_gpu() else 'eager'
            self.model.backbone.compile(backend=backend)
        self.optim_wrapper = build_optim_wrapper(self.model, config.optim_wrapper)
        pipeline = config.train_dataloader.dataset.pipeline
        width, height = pipeline[3]['transforms'][1]['scale']
        self.shape = pipeline[1]['clip_len'], height, width
        self.layout = layout

    def batch(self, videos: int) -> torch.Tensor:
        """Create pairs of clips on the host, page-locked if there is a GPU."""
        clips = torch.randint(256, (videos, 2, *self.shape, 3), dtype=torch.uint8)
        clips = clips.permute(0, 1, 5, 2, 3, 4)
        if self.layout == 'contiguous':
            clips = clips.contiguous()
        return clips.pin_memory() if on_gpu() else clips

    def measure(self, videos: int, steps: int) -> dict:
        """Time several steps with a number of videos, after two warm-up steps."""
        batch = self.batch(videos)

        def step() -> None:
            data = dict(inputs=batch, data_samples=[ActionDataSample() for _ in range(videos)])
            self.model.train_step(data, self.optim_wrapper)

        for _ in range(2):
            step()
        if on_gpu():
            torch.cuda.reset_peak_memory_stats()
        median = statistics.median(seconds(step) for _ in range(steps))
        memory = torch.cuda.max_memory_allocated() / 2**30 if on_gpu() else None
        return dict(
            videos=videos, ms_per_step=1e3 * median, videos_per_second=videos / median, GiB=memory
        )


def training_step(
    config: str, options: dict, layout: str = 'loader', compiled: bool = False
) -> dict:
    """Measure a step with the batch size of the config."""
    loaded = configuration(config, options)
    videos = loaded.train_dataloader.batch_size
    step = TrainingStep(loaded, layout, compiled)
    return step.measure(videos, steps=10 if on_gpu() else 2)


def largest_batch(options: dict | None = None, recompute: dict | None = None) -> dict:
    """Find the largest batch that fits into memory, within 1/16, and time a step."""
    config = configuration('cvrl/pretrain_k400.py', options or {})
    if recompute is not None:
        config.model.backbone['recompute'] = recompute
    step = TrainingStep(config)
    if not on_gpu():
        return step.measure(4, steps=1)
    fits, fails = 0, None
    trial = 32
    while trial > fits and (fails is None or fails - fits > max(fits // 16, 1)):
        try:
            result = step.measure(trial, steps=2)
            fits = trial
        except RuntimeError as error:
            if 'out of memory' not in str(error):
                raise
            fails = trial
        step.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        trial = 2 * fits if fails is None else (fits + fails) // 2
    if not fits:
        raise RuntimeError('out of memory')
    return dict(result, largest_batch=fits)


def flops_per_video(config: str = 'cvrl/pretrain_k400.py') -> dict:
    """Count the backbone's floating-point operations per video, forward and backward."""
    loaded = configuration(config, {})
    backbone_config = dict(loaded.model.backbone)
    backbone_config.pop('recompute', None)  # recomputation is not counted
    pipeline = loaded.train_dataloader.dataset.pipeline
    width, height = pipeline[3]['transforms'][1]['scale']
    with torch.device('meta'):
        backbone = MODELS.build(backbone_config).train()
        clips = torch.empty(2, 3, pipeline[1]['clip_len'], height, width)
        with FlopCounterMode(display=False) as counter:
            backbone(clips).mean().backward()
    return dict(gflops=counter.get_total_flops() / 1e9)


def matrix_product() -> dict:
    """Measure the bfloat16 rate of a large matrix product."""
    n = 8192 if on_gpu() else 256
    a, b = (torch.randn(n, n, device=device(), dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    return dict(
        tflops=2 * n**3 / statistics.median(seconds(lambda: a @ b) for _ in range(10)) / 1e12
    )


def copies() -> dict:
    """Measure copies of a batch to the device, from pageable and from page-locked memory."""
    pageable = torch.zeros((617 if on_gpu() else 1) * 10**6, dtype=torch.uint8)
    sources = dict(pageable=pageable)
    if on_gpu():
        sources['pinned'] = pageable.pin_memory()
        shared = torch.zeros_like(pageable).share_memory_()
        error = torch.cuda.cudart().cudaHostRegister(shared.data_ptr(), shared.nbytes, 0)
        if int(error) == 0:
            sources['shared, page-locked'] = shared
    rates = {}
    for name, source in sources.items():
        target = torch.empty_like(source, device=device())
        times = [
            seconds(lambda s=source, t=target: t.copy_(s, non_blocking=True)) for _ in range(6)
        ]
        rates[f'{name}, GB/s'] = source.nbytes / statistics.median(times[1:]) / 1e9
    return rates


def batches_from_workers() -> dict:
    """Measure the time in which this process receives, copies and releases a batch."""
    sizes = dict(videos=128, batches=12) if on_gpu() else dict(videos=2, batches=3, size=16)
    result = transport.summary(transport.measure(**sizes)['stack_collate'])
    return {f'{name}, ms' if name != 'files' else name: value for name, value in result.items()}


def write_videos(folder: Path, kind: str) -> list[Path]:
    """Write videos of the usual size of Kinetics, unless they exist."""
    number, frames, size = (32, 250, (340, 256)) if on_gpu() else (2, 30, (68, 52))
    originals = [folder / f'original_{i}.mp4' for i in range(number)]
    for i, path in enumerate(originals):
        if not path.exists():
            _write_video(path, i, frames, size)
    if kind == 'original':
        return originals
    repacked = [folder / f'repacked_{i}.mp4' for i in range(number)]
    for source, target in zip(originals, repacked, strict=True):
        if not target.exists():
            repack_video(source, target, RepackSettings())
    return repacked


def _write_video(path: Path, seed: int, frames: int, size: tuple[int, int]) -> None:
    """Write a moving texture in H.264 with the default settings of x264."""
    rng = np.random.default_rng(seed)
    texture = cv2.resize(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8), (2 * size[0],) * 2)
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=25)
        stream.width, stream.height = size
        stream.pix_fmt = 'yuv420p'
        for t in range(frames):
            image = np.ascontiguousarray(np.roll(texture, 3 * t, 1)[: size[1], : size[0]])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())


def write_list(folder: Path, kind: str, length: int) -> Path:
    """Write a list with a number of lines that repeat the videos."""
    videos = write_videos(folder, kind)
    path = folder / f'{kind}_{length}.txt'
    path.write_text(''.join(f'{videos[i % len(videos)].name}\n' for i in range(length)))
    return path


def loader_rate(folder: str, kind: str, workers: int) -> dict:
    """Measure the videos per second of the training loader with a number of workers."""
    batch, measured = (16, 10.0) if on_gpu() else (4, 0.2)
    length = 100_000 if on_gpu() else 400
    options = {
        'train_dataloader.dataset.ann_file': str(write_list(Path(folder), kind, length)),
        'train_dataloader.dataset.data_prefix.video': folder,
        'train_dataloader.batch_size': batch,
        'train_dataloader.num_workers': workers,
    }
    loader = Runner.build_dataloader(
        configuration('cvrl/pretrain_k400.py', options).train_dataloader, seed=0
    )
    batches = iter(loader)
    for _ in islice(batches, workers):  # the first batch of each worker
        pass
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < measured:
        next(batches)
        count += batch
    return dict(videos_per_second=count / (time.perf_counter() - start))


def training(folder: str, workers: int, steps: int) -> dict:
    """Run ``tools/train.py`` and read the speed from its log."""
    config = configuration('cvrl/pretrain_k400.py', {})
    batch = config.train_dataloader.batch_size
    work_dir = Path(folder) / 'training'
    options = {} if on_gpu() else {k: str(v).replace(' ', '') for k, v in SMALL.items()}
    options |= {
        'train_dataloader.dataset.ann_file': write_list(Path(folder), 'original', steps * batch),
        'train_dataloader.dataset.data_prefix.video': folder,
        'train_dataloader.num_workers': workers,
        'train_cfg.max_epochs': 1,
        'default_hooks.logger.interval': max(steps // 5, 1),
        'default_hooks.checkpoint.interval': 2,
    }
    command = [sys.executable, str(ROOT / 'tools/train.py'), config.filename]
    command += ['--work-dir', str(work_dir), '--cfg-options']
    command += [f'{key}={value}' for key, value in options.items()]
    busy = _BusyShare()
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    busy_share = busy.stop()
    if run.returncode:
        raise RuntimeError(f'tools/train.py failed: {run.stderr.strip().splitlines()[-1:]}')
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    last = json.loads(log.read_text().splitlines()[-1])
    return dict(
        steps=last['step'],
        videos_per_second=batch / last['time'],
        waiting_for_data=last['data_time'] / last['time'],
        gpu_busy=busy_share,
    )


class _BusyShare:
    """Sample the share of time in which the GPU is busy, with nvidia-smi once per second."""

    def __init__(self) -> None:
        self.process = None
        if on_gpu() and shutil.which('nvidia-smi'):
            self.process = subprocess.Popen(
                [
                    *('nvidia-smi', '--query-gpu=utilization.gpu', '--loop=1'),
                    '--format=csv,noheader,nounits',
                ],
                stdout=subprocess.PIPE,
                text=True,
            )

    def stop(self) -> float | None:
        """Return the mean over the last half of the samples, or None without nvidia-smi."""
        if self.process is None:
            return None
        self.process.terminate()
        output, _ = self.process.communicate(timeout=10)
        samples = [float(line) for line in output.split() if line.isdigit()]
        return statistics.mean(samples[len(samples) // 2 :]) / 100 if samples else None


def machine() -> dict:
    """Describe the machine and the versions."""
    gpu = torch.cuda.get_device_properties(0) if on_gpu() else None
    return dict(
        gpu=gpu and gpu.name,
        gpu_GiB=gpu and gpu.total_memory / 2**30,
        cores=usable_cores(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version(),
        cvrl_mm=cvrl_mm.__version__,
    )


MEASUREMENTS: Iterable[Callable[..., dict]] = (
    *(machine, training_step, largest_batch, flops_per_video, matrix_product),
    *(copies, batches_from_workers, loader_rate, training),
)


def run(connection: Connection, name: str, arguments: dict) -> None:
    """Run one measurement in this process and send its result."""
    with suppress(AttributeError, PermissionError):  # a process group that can be killed as a whole
        os.setsid()
    connection.send(result_of(name, arguments))


def result_of(name: str, arguments: dict) -> dict:
    """Run one measurement; an error, such as running out of memory, is a result."""
    try:
        return {f.__name__: f for f in MEASUREMENTS}[name](**arguments)
    except Exception as error:
        if 'out of memory' in str(error):
            return dict(outcome='out of memory')
        line = ''.join(str(error).strip().splitlines()[:1])
        return dict(outcome=f'{type(error).__name__}: {line}')
