"""Measure pre-training on this machine: steps, memory, copies, loader, a training.

Example:
    python tools/benchmarks/gpu_report.py --minutes 8 --out work_dirs/gpu_report
    python tools/benchmarks/gpu_report.py --out work_dirs/gpu_report --only 'step, compiled'

Each row runs in a process of its own with a time limit, the most important ones first. After each
one, OUT/results.json and OUT/report.md are written; rows of an earlier run in OUT are kept until
they are measured again. Without a GPU, all rows run with small inputs on the CPU. This only tests
the script; the figures are meaningless.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

ROOT = Path(__file__).parents[2]
K400 = 'cvrl/pretrain_k400.py'
AUGMENTED = 'cvrl/pretrain_k400_device_augment.py'
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device('cuda' if ON_GPU else 'cpu')
SMALL = {
    'train_dataloader.batch_size': 4,
    'train_dataloader.dataset.pipeline.1.clip_len': 4,
    'train_dataloader.dataset.pipeline.3.transforms.1.scale': (32, 32),
    'model.backbone.depth': 18,
    'model.backbone.width': 0.125,
    'model.cls_head.hidden_channels': 16,
}
STOCK = dict(
    _delete_=True,
    type='ResNet3dSlowOnly',
    depth=50 if ON_GPU else 18,
    base_channels=64 if ON_GPU else 8,
    conv1_kernel=(5, 7, 7),
    conv1_stride_t=2,
    pretrained=None,
)
FEATURES = 2048 if ON_GPU else 64  # channels of the backbone
LAYOUTS = ('loader', 'contiguous', 'channels_last')
ALL_STAGES = dict(stem=1, layer1=3, layer2=4, layer3=6, layer4=3)
RECOMPUTED = dict(none={}, layer1=dict(layer1='last'), all=ALL_STAGES)
LARGEST_BATCH = 256  # videos
STEPS = 50 if ON_GPU else 3  # of the training
TRAINING = f'training, {STEPS} steps'
SMALLER_GPU = 78 * 2**30  # bytes that PyTorch can use on a GPU of 80 GB


def load_config(name: str, **options: object) -> Any:
    """Load a config of the repository, with small sizes on a CPU."""
    from mmaction.utils import register_all_modules
    from mmengine.config import Config

    register_all_modules()
    config = Config.fromfile(ROOT / 'configs' / name)
    config.merge_from_dict({} if ON_GPU else SMALL)
    config.merge_from_dict({'model.cls_head.in_channels': FEATURES, **options})
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


class TrainingStep:
    """A step of pre-training on random clips, including the optimiser.

    Args:
        config: Config of a pre-training.
        layout: Memory layout. ``loader``: clips as the loader returns them (channels last) and a
            contiguous network. ``contiguous``: both contiguous. ``channels_last``: both channels
            last.
        compiled: Whether to compile the backbone. Activations are then not recomputed.
    """

    def __init__(self, config: Any, layout: str = 'loader', compiled: bool = False) -> None:
        import memory
        from mmaction.registry import MODELS
        from mmengine.optim import build_optim_wrapper

        if layout == 'channels_last':
            config.model.backbone.channels_last = True
        if compiled:  # torch.compile does not support the contexts of recomputed stages
            config.model.backbone['recompute'] = {}
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model = MODELS.build(config.model).to(DEVICE).train()
        if compiled:
            self.model.backbone.compile(backend='inductor' if ON_GPU else 'eager')
        self.optim_wrapper = build_optim_wrapper(self.model, config.optim_wrapper)
        self.shape = memory.sample_shape(config.train_dataloader.dataset.pipeline)
        self.layout = layout

    def measure(self, videos: int, steps: int) -> dict[str, Any]:
        """Time several steps with a number of videos, after two warm-up steps."""
        from mmaction.structures import ActionDataSample

        clips = torch.randint(256, (videos, *self.shape, 3), dtype=torch.uint8)
        clips = clips.permute(0, 1, 5, 2, 3, 4)
        clips = clips.contiguous() if self.layout == 'contiguous' else clips
        clips = clips.pin_memory() if ON_GPU else clips

        def step() -> None:
            data = dict(inputs=clips, data_samples=[ActionDataSample() for _ in range(videos)])
            self.model.train_step(data, self.optim_wrapper)

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
    layout: str = 'loader',
    compiled: bool = False,
    smaller: bool = False,
    **options: object,
) -> dict[str, Any]:
    """Measure a step with the batch size of the config; ``smaller``: as on a GPU of 80 GB."""
    if smaller and ON_GPU:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(SMALLER_GPU / total, 1.0))
    config = load_config(name, **options)
    step = TrainingStep(config, layout, compiled)
    return step.measure(config.train_dataloader.batch_size, steps=10 if ON_GPU else 2)


def largest_batch(recompute: dict, **options: object) -> dict[str, Any]:
    """Find the largest batch up to 256 that fits into memory, within 1/16, and time a step."""
    config = load_config(K400, **options)
    config.model.backbone['recompute'] = recompute
    step = TrainingStep(config)
    result: dict[str, Any] = {}
    fits, fails = 0, LARGEST_BATCH + 1 if ON_GPU else 5
    trial = min(128, fails - 1)
    while fails - fits > max(fits // 16, 1):
        try:
            result, fits = step.measure(trial, steps=2), trial
        except RuntimeError as error:
            if 'out of memory' not in str(error):
                raise
            fails = trial
        step.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        trial = (fits + fails) // 2
    return dict(result, largest_batch=fits) if fits else dict(outcome='out of memory')


def kernels() -> dict[str, Any]:
    """Measure the thirty kernels that take most of a step, in ms per step."""
    config = load_config(K400)
    step, videos = TrainingStep(config), config.train_dataloader.batch_size
    step.measure(videos, steps=1)  # cuDNN searches in its first step
    with torch.profiler.profile() as profiler:
        step.measure(videos, steps=1)  # after two warm-up steps
    times = {
        event.key.replace('|', '/'): event.self_device_time_total / 3e3
        for event in profiler.key_averages()
        if event.device_type.name == DEVICE.type.upper()
    }
    return dict(sorted(times.items(), key=lambda item: -item[1])[:30])


def copies() -> dict[str, Any]:
    """Measure copies of a batch to the device, from pageable and from page-locked memory."""
    pageable = torch.zeros((617 if ON_GPU else 1) * 10**6, dtype=torch.uint8)
    sources = dict(pageable=pageable)
    if ON_GPU:
        sources['pinned'] = pageable.pin_memory()
        shared = torch.zeros_like(pageable).share_memory_()
        if int(torch.cuda.cudart().cudaHostRegister(shared.data_ptr(), shared.nbytes, 0)) == 0:
            sources['shared, page-locked'] = shared
    target = torch.empty_like(pageable, device=DEVICE)
    rates = {}
    for name, source in sources.items():
        times = [seconds(partial(target.copy_, source, non_blocking=True)) for _ in range(6)]
        rates[f'{name}, GB/s'] = source.nbytes / statistics.median(times[1:]) / 1e9
    return rates


def batches_from_workers() -> dict[str, Any]:
    """Measure the time in which this process receives, copies and releases a batch, in ms."""
    import transport

    sizes = dict(videos=128, batches=12) if ON_GPU else dict(videos=2, batches=3, size=16)
    return transport.summary(transport.measure(**sizes)['stack_collate'])


def write_list(folder: Path, kind: str, length: int) -> Path:
    """Write videos of the usual size of Kinetics, unless they exist, and a list of them."""
    from cvrl_mm.preparation.repack import RepackSettings, repack_video

    number = 32 if ON_GPU else 2
    for i in range(number):
        original, repacked = (folder / f'{x}_{i}.mp4' for x in ('original', 'repacked'))
        if not original.exists():
            _write_video(original, i)
        if kind == 'repacked' and not repacked.exists():
            repack_video(original, repacked, RepackSettings())
    path = folder / f'{kind}_{length}.txt'
    path.write_text(''.join(f'{kind}_{i % number}.mp4\n' for i in range(length)))
    return path


def _write_video(path: Path, seed: int) -> None:
    """Write a moving texture in H.264 with the default settings of x264."""
    import av
    import cv2
    import numpy as np

    frames, (width, height) = (250, (340, 256)) if ON_GPU else (30, (68, 52))
    rng = np.random.default_rng(seed)
    texture = cv2.resize(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8), (2 * width,) * 2)
    part = path.with_name(f'{path.stem}.part.mp4')  # a row that is ended leaves no cut video
    with av.open(str(part), 'w') as container:
        stream = container.add_stream('libx264', rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, 'yuv420p'
        for t in range(frames):
            image = np.ascontiguousarray(np.roll(texture, 3 * t, 1)[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    part.replace(path)


def loader_rate(folder: Path, kind: str, workers: int) -> dict[str, Any]:
    """Measure the videos per second of the training loader with a number of workers."""
    from mmengine.runner import Runner

    batch, measured = (16, 10.0) if ON_GPU else (4, 0.2)
    options = {
        'train_dataloader.dataset.ann_file': str(write_list(folder, kind, 100_000)),
        'train_dataloader.dataset.data_prefix.video': str(folder),
        'train_dataloader.batch_size': batch,
        'train_dataloader.num_workers': workers,
    }
    loader = Runner.build_dataloader(load_config(K400, **options).train_dataloader, seed=0)
    batches = iter(loader)
    for _ in islice(batches, workers):  # the first batch of each worker
        pass
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < measured:
        next(batches)
        count += batch
    return dict(videos_per_second=count / (time.perf_counter() - start))


def training(folder: Path, workers: int) -> dict[str, Any]:
    """Run ``tools/train.py`` and read the speed from its log."""
    batch = load_config(K400).train_dataloader.batch_size
    work_dir = folder / 'training'
    shutil.rmtree(work_dir, ignore_errors=True)  # of an earlier run
    options = {} if ON_GPU else {k: str(v).replace(' ', '') for k, v in SMALL.items()}
    options |= {
        'train_dataloader.dataset.ann_file': write_list(folder, 'original', STEPS * batch),
        'train_dataloader.dataset.data_prefix.video': folder,
        'train_dataloader.num_workers': workers,
        'train_cfg.max_epochs': 1,
        'default_hooks.logger.interval': max(STEPS // 5, 1),
        'default_hooks.checkpoint.interval': 2,
    }
    command = [sys.executable, ROOT / 'tools/train.py', ROOT / 'configs' / K400]
    command += ['--work-dir', work_dir, '--cfg-options']
    command += [f'{key}={value}' for key, value in options.items()]
    subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT, check=True)
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    last = [line for line in lines if 'time' in line][-1]  # means of the last steps
    return dict(
        steps=last['step'],
        videos_per_second=batch / last['time'],
        waiting_for_data=last['data_time'] / last['time'],
    )


def describe_machine() -> dict[str, Any]:
    """Describe the machine and the versions."""
    import cvrl_mm
    from cvrl_mm.io import usable_cores

    gpu = torch.cuda.get_device_properties(0) if ON_GPU else None
    versions = dict(torch=torch.__version__, cuda=torch.version.cuda, cvrl_mm=cvrl_mm.__version__)
    memory = gpu and gpu.total_memory / 2**30
    cudnn = torch.backends.cudnn.version()
    return dict(gpu=gpu and gpu.name, gpu_GiB=memory, cores=usable_cores(), cudnn=cudnn, **versions)


@dataclass
class Row:
    """A row of the report: a function, its arguments, and its time limit in seconds."""

    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    limit: float = 120


def rows(folder: Path) -> dict[str, Row]:
    """List all rows in the order of what they decide: step, loader, batch, options, the rest."""
    from cvrl_mm.io import usable_cores

    workers = min(usable_cores(), 16) if ON_GPU else 1
    found = {'step, loader': Row(training_step)}
    found[TRAINING] = Row(training, dict(folder=folder, workers=workers), 240)
    found['step, 80 GB'] = Row(training_step, dict(smaller=True))
    found['kernels, ms'] = Row(kernels)
    for layout in LAYOUTS[1:]:
        found[f'step, {layout}'] = Row(training_step, dict(layout=layout))
    for kind in ('original', 'repacked'):
        for count in (16, 8, 4) if ON_GPU else (1,):
            arguments = dict(folder=folder, kind=kind, workers=count)
            found[f'loader, {kind}, {count} workers'] = Row(loader_rate, arguments, 60)
    for name, stages in RECOMPUTED.items():
        found[f'recomputed: {name}'] = Row(largest_batch, dict(recompute=stages))
    found['step, device augmentation'] = Row(training_step, dict(name=AUGMENTED))
    found['step, compiled'] = Row(training_step, dict(compiled=True), 180)
    found['step, stock'] = Row(training_step, {'model.backbone': STOCK})
    chunks = {'model.chunk_size': 16 if ON_GPU else 2}
    found['chunks'] = Row(largest_batch, dict(recompute={}, **chunks))
    found['copies'] = Row(copies)
    found['a batch from the workers'] = Row(batches_from_workers)
    return found


def run_row(row: Row) -> dict[str, Any]:
    """Run one row in this process; an error, such as running out of memory, is a result."""
    try:
        return row.function(**row.arguments)
    except Exception as error:
        if 'out of memory' in str(error):
            return dict(outcome='out of memory')
        return dict(outcome=f'{type(error).__name__}: {error}'.splitlines()[0])


def measure(name: str, out: Path, limit: float) -> dict[str, Any]:
    """Run one row in a new process and wait for its result; end all its processes."""
    with tempfile.NamedTemporaryFile() as result:
        command = [sys.executable, __file__, '--out', out, '--row', name, '--result', result.name]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(limit)
            return json.loads(result.read())
        except subprocess.TimeoutExpired:
            return dict(outcome=f'ended after {limit:.0f} s')
        except ValueError:
            return dict(outcome=f'the process ended with {process.returncode}')
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def text(result: dict[str, Any]) -> str:
    """Format a result."""

    def value(x: object) -> str:
        if isinstance(x, float):
            return f'{x:.3g}' if abs(x) < 100 else f'{x:.0f}'
        return 'not measured' if x is None else str(x)

    values = ', '.join(f'{key} {value(x)}' for key, x in result.items())
    return str(result.get('outcome', values))


def advice(results: dict[str, dict[str, Any]]) -> str:
    """Recommend settings for this GPU, based on the finished rows."""
    rates = {name: result.get('videos_per_second', 0.0) for name, result in results.items()}
    steps = {layout: rates.get(f'step, {layout}', 0.0) for layout in LAYOUTS}
    best = max(steps, key=lambda layout: steps[layout])
    if not steps[best]:
        return 'No step was measured, so no setting can be recommended.'
    switch = 'model.backbone.channels_last=True' if best == 'channels_last' else 'the default'
    said = [f'Fastest layout: {best} ({steps[best]:.0f} videos/s; {switch}).']
    for name in RECOMPUTED:
        if results.get(f'recomputed: {name}', {}).get('largest_batch', 0) >= 128:
            said.append(f'The least recomputation that fits 128 videos: {name}.')
            break
    for name in ('compiled', 'device augmentation', 'stock'):
        if steps['loader'] and (rate := rates.get(f'step, {name}')):
            said.append(f'The rate of the step, {name}: {rate / steps["loader"]:.2f} x.')
    loaders = {name: rate for name, rate in rates.items() if rate and name.startswith('loader')}
    if enough := [name for name, rate in loaders.items() if rate >= steps[best]]:
        fewest = min(enough, key=lambda name: loaders[name])
        said.append(f'The slowest loader that keeps up: {fewest.removeprefix("loader, ")}.')
    elif loaders:
        said.append('No measured loader keeps up with the step.')
    if (waiting := results.get(TRAINING, {}).get('waiting_for_data')) is not None:
        said.append(f'A training waited for data {waiting:.0%} of the time.')
    return ' '.join(said)


def write(out: Path, machine: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    """Write both files; an interruption does not damage existing ones."""
    from cvrl_mm.io import replacing

    lines = ['# Pre-training on this machine', '', text(machine), '']
    if not machine.get('gpu'):
        lines += ['**No GPU: all rows ran with small inputs; the figures are meaningless.**', '']
    lines += ['| measurement | result |', '|---|---|']
    lines += [f'| {name} | {text(result)} |' for name, result in results.items()]
    lines += ['', advice(results), '']
    contents = json.dumps(dict(machine=machine, results=results), indent=1)
    for name, content in (('results.json', contents), ('report.md', '\n'.join(lines))):
        with replacing(out / name) as part:
            part.write_text(content, 'utf-8')


def main() -> None:
    """Run the rows until the time limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--minutes', type=float, default=8, help='time for everything')
    parser.add_argument('--out', type=Path, required=True, help='folder of the results')
    parser.add_argument('--only', metavar='ROW', help='measure this row alone')
    parser.add_argument('--row', help=argparse.SUPPRESS)
    parser.add_argument('--result', type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    (videos := args.out.resolve() / 'videos').mkdir(parents=True, exist_ok=True)
    found = rows(videos)
    if args.row:
        args.result.write_text(json.dumps(run_row(found[args.row])))
        return
    if args.only and args.only not in found:
        parser.error(f'--only must be one of: {"; ".join(found)}')
    deadline = time.monotonic() + 60 * args.minutes
    machine, results = describe_machine(), {}
    with suppress(OSError, ValueError, KeyError):
        results = json.loads((args.out / 'results.json').read_text('utf-8'))['results']
    for name in [args.only] if args.only else found:
        left = deadline - time.monotonic()
        if left > 5:
            results[name] = measure(name, args.out, min(found[name].limit, left))
        else:
            results.setdefault(name, dict(outcome='skipped: no time left'))
        results = {name: results[name] for name in found if name in results}
        write(args.out, machine, results)
        Console().print(f'{name}: {text(results[name])}', highlight=False)
    Console().print(f'\n{advice(results)}\nWritten to {args.out / "report.md"}.')


if __name__ == '__main__':
    main()
