"""Measure pre-training on this machine: steps, memory, loader, a training.

Example:
    python tools/benchmarks/gpu_report.py --minutes 8 --out work_dirs/gpu_report
    python tools/benchmarks/gpu_report.py --out work_dirs/gpu_report --only 'step, compiled'

The most important rows come first. Each row has a time limit, and consecutive rows of one config
share a process. After each row, OUT/results.json and OUT/report.md are written; rows of an earlier
run in OUT are kept until they are measured again. Without a GPU, all rows run with small inputs on
the CPU. This only tests the script; the figures are meaningless.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
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
    'model.cls_head.in_channels': 64,
    'model.cls_head.hidden_channels': 16,
}
ALL_STAGES = dict(stem=1, layer1=3, layer2=4, layer3=6, layer4=3)
RECOMPUTED = dict(none={}, layer1=dict(layer1='last'), all=ALL_STAGES)
LARGEST_BATCH = 256  # videos
SEARCH_SECONDS = 45  # after which no other batch size is tried; cuDNN searches for each of them
SPARE_SECONDS = 15  # for the imports before and for the end of the last process
# What torch and cuDNN say. The latter finds no algorithm when their buffers do not fit
OUT_OF_MEMORY = ('out of memory', 'unable to find an engine', 'ALLOC_FAILED')
STEPS = 50 if ON_GPU else 3  # of the training
TRAINING = f'training, {STEPS} steps'
SMALLER_GPU = 78 * 2**30  # bytes that PyTorch can use on a GPU of 80 GB
NUM_VIDEOS = 32 if ON_GPU else 2  # files that the loader reads again and again


def load_config(name: str, **options: object) -> Any:
    """Load a config of the repository, with small sizes on a CPU."""
    from mmaction.utils import register_all_modules
    from mmengine.config import Config

    register_all_modules()
    config = Config.fromfile(ROOT / 'configs' / name)
    config.merge_from_dict(options if ON_GPU else SMALL | options)
    return config


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a batch was too large."""
    return any(words in str(error) for words in OUT_OF_MEMORY)


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
        compiled: Whether to compile the backbone. Activations are then not recomputed.
    """

    def __init__(self, config: Any, compiled: bool = False) -> None:
        import memory
        from mmaction.registry import MODELS
        from mmengine.model import MMDistributedDataParallel, convert_sync_batchnorm
        from mmengine.optim import build_optim_wrapper

        if compiled:  # torch.compile does not support the hooks of recomputed stages
            config.model.backbone['recompute'] = {}
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model = MODELS.build(config.model).to(DEVICE).train()
        if compiled:
            self.model.backbone.compile(backend='inductor' if ON_GPU else 'eager')
        if dist.is_initialized() and ON_GPU:  # a CPU has no kernels of synchronised batch norm
            self.model = convert_sync_batchnorm(self.model)
        if dist.is_initialized():
            devices = [0] if ON_GPU else None
            self.model = MMDistributedDataParallel(
                self.model, device_ids=devices, broadcast_buffers=False
            )
        self.optim_wrapper = build_optim_wrapper(self.model, config.optim_wrapper)
        self.shape = memory.sample_shape(config.train_dataloader.dataset.pipeline)

    def measure(self, videos: int, steps: int) -> dict[str, Any]:
        """Time several steps with a number of videos, after two warm-up steps."""
        from mmaction.structures import ActionDataSample

        clips = torch.randint(256, (videos, *self.shape, 3), dtype=torch.uint8)
        clips = clips.permute(0, 1, 5, 2, 3, 4).to(DEVICE)  # as the training loop does

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
    name: str = K400, compiled: bool = False, ranks: bool = False, **options: object
) -> dict[str, Any]:
    """Measure a step with the batch size of the config; ``ranks``: as a rank of several."""
    config = load_config(name, **options)
    with one_rank() if ranks else nullcontext():
        step = TrainingStep(config, compiled)
        return step.measure(config.train_dataloader.batch_size, steps=10 if ON_GPU else 2)


def step_on_smaller_gpu() -> dict[str, Any]:
    """Measure a step with the memory of a GPU of 80 GB."""
    if not ON_GPU:
        return training_step()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(SMALLER_GPU / total, 1.0))
    try:
        return training_step()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def largest_batch(recompute: dict, **options: object) -> dict[str, Any]:
    """Find the largest batch up to 256 that fits into memory, within 1/16, and time a step.

    The search takes a limited time, and ``too_large`` is the smallest batch that did not fit.
    """
    end = time.monotonic() + SEARCH_SECONDS
    config = load_config(K400, **options)
    config.model.backbone['recompute'] = recompute
    step = TrainingStep(config)
    result: dict[str, Any] = {}
    too_large = None
    fits, fails = 0, LARGEST_BATCH + 1 if ON_GPU else 5
    trial = min(128, fails - 1)
    while fails - fits > max(fits // 16, 1) and not (fits and time.monotonic() > end):
        try:
            result, fits = step.measure(trial, steps=2), trial
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            fails = too_large = trial
        step.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        trial = (fits + fails) // 2
    found = dict(result, largest_batch=fits, too_large=too_large)
    return found if fits else dict(outcome='out of memory')


def operations() -> dict[str, Any]:
    """Measure the thirty operations whose kernels take most of a step, in ms per step."""
    config = load_config(K400)
    step, videos = TrainingStep(config), config.train_dataloader.batch_size
    step.measure(videos, steps=1)  # cuDNN searches in its first step
    with torch.profiler.profile() as profiler:
        step.measure(videos, steps=1)  # after two warm-up steps
    time_of = 'self_device_time_total' if ON_GPU else 'self_cpu_time_total'
    times = {
        event.key: getattr(event, time_of) / 3e3
        for event in profiler.key_averages()
        if event.device_type.name == 'CPU' and not event.is_user_annotation
    }
    return dict(sorted(times.items(), key=lambda item: -item[1])[:30])


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
        from cvrl_mm.io import usable_cores
        from cvrl_mm.preparation.repack import RepackSettings, repack_video

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
    part = path.with_name(f'{path.stem}.part.mp4')  # a row that is ended leaves no cut video
    with av.open(str(part), 'w') as container:
        stream = container.add_stream('libx264', rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, 'yuv420p'
        for t in range(frames):
            image = np.ascontiguousarray(np.roll(texture, 3 * t, 1)[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    part.replace(path)


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
    """Run ``tools/train.py`` and read the speed from its log."""
    batch = load_config(K400).train_dataloader.batch_size
    options = {} if ON_GPU else {k: str(v).replace(' ', '') for k, v in SMALL.items()}
    options |= {
        'train_dataloader.dataset.ann_file': videos.write_list('original', STEPS * batch),
        'train_dataloader.dataset.data_prefix.video': '/',
        'train_dataloader.num_workers': workers,
        'train_cfg.max_epochs': 1,
        'default_hooks.logger.interval': max(STEPS // 5, 1),
        'default_hooks.checkpoint.interval': 2,
    }
    command = [sys.executable, ROOT / 'tools/train.py', ROOT / 'configs' / K400]
    command += ['--cfg-options', *(f'{key}={value}' for key, value in options.items())]
    with tempfile.TemporaryDirectory(dir=videos.folder) as work_dir:
        command += ['--work-dir', work_dir]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            lines = done.stderr.splitlines() or ['']
            error = ([line for line in lines if 'Error' in line] or lines)[-1]
            raise RuntimeError(f'tools/train.py ended with {done.returncode}: {error}')
        (log,) = Path(work_dir).glob('*/vis_data/scalars.json')
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


@dataclass(frozen=True)
class Row:
    """A row of the report.

    Attributes:
        process: Consecutive rows with the same value share a process.
        function: What measures it, and its arguments.
        limit: Time limit in seconds.
    """

    process: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    limit: float = 120


def rows(videos: Videos) -> dict[str, Row]:
    """List all rows in the order of what they decide: step, training, loader, largest batches."""
    from cvrl_mm.io import usable_cores

    workers = min(usable_cores(), 16) if ON_GPU else 1
    last = {'model.backbone.channels_last': True}
    found = {
        'step': Row('step', training_step),
        'step, one rank of NCCL': Row('step', training_step, dict(ranks=True)),
        'step, 80 GB': Row('step', step_on_smaller_gpu),
        'operations, ms': Row('step', operations),
        'step, channels last': Row('step', training_step, last),
        'step, device augmentation': Row('step', training_step, dict(name=AUGMENTED)),
        TRAINING: Row('loader', training, dict(videos=videos, workers=workers), 240),
    }
    for kind in ('original', 'repacked'):
        for count in (16, 8, 4) if ON_GPU else (1,):
            arguments = dict(videos=videos, kind=kind, workers=count)
            found[f'loader, {kind}, {count} workers'] = Row('loader', loader_rate, arguments, 60)
    # It recomputes nothing; 128 videos then need 83 GiB
    compiled = {'compiled': True, 'train_dataloader.batch_size': 96 if ON_GPU else 4}
    found['step, compiled'] = Row('compiled', training_step, compiled, 180)
    for name, stages in RECOMPUTED.items():
        found[f'recomputed: {name}'] = Row('batch', largest_batch, dict(recompute=stages))
    chunks = {'model.chunk_size': 16 if ON_GPU else 2}
    found['chunks'] = Row('batch', largest_batch, dict(recompute={}, **chunks))
    return found


def run_row(row: Row) -> dict[str, Any]:
    """Run one row in this process; an error, such as running out of memory, is a result."""
    try:
        torch.cuda.empty_cache()
        return row.function(**row.arguments)
    except Exception as error:
        if is_out_of_memory(error):
            return dict(outcome='out of memory')
        return dict(outcome=f'{type(error).__name__}: {error}'.splitlines()[0])


def run_rows(results: Connection, names: list[str], videos: Videos) -> None:
    """Run some rows in this process, and send the result of each."""
    os.setsid()  # a group with all processes that a row starts
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    found = rows(videos)
    for name in names:
        results.send(run_row(found[name]))


def measure(
    names: list[str], videos: Videos, deadline: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run rows in a new process, and yield the result of each.

    A process that exceeds the limit of a row, that ends, or in which a row fails is followed by
    another one: after an error of CUDA, all later calls fail. Rows that have not ended at
    the deadline have no result.
    """
    found, waiting = rows(videos), list(names)
    context = multiprocessing.get_context('spawn')
    while waiting and time.monotonic() < deadline:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=run_rows, args=(sender, waiting, videos))
        process.start()
        sender.close()
        try:
            while waiting:
                limit = found[waiting[0]].limit
                if not receiver.poll(min(limit, max(deadline - time.monotonic(), 0))):
                    if time.monotonic() >= deadline:
                        return
                    yield waiting.pop(0), dict(outcome=f'ended after {limit:.0f} s')
                    break
                result = receiver.recv()
                yield waiting.pop(0), result
                if 'outcome' in result:
                    break
        except EOFError:
            process.join()
            yield waiting.pop(0), dict(outcome=f'the process ended with {process.exitcode}')
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


def advice(results: dict[str, dict[str, Any]]) -> str:
    """Recommend settings for this GPU, based on the finished rows."""
    rates = {name: result.get('videos_per_second', 0.0) for name, result in results.items()}
    step = rates.get('step')
    if not step:
        return 'The step was not measured, so no setting can be recommended.'
    said = [f'The step: {step:.0f} videos/s.']
    for name, rate in rates.items():
        if rate and name.startswith('step, '):
            said.append(f'With {name.removeprefix("step, ")}: {rate / step:.2f} x.')
    for name in RECOMPUTED:
        if results.get(f'recomputed: {name}', {}).get('largest_batch', 0) >= 128:
            said.append(f'The least recomputation that fits 128 videos: {name}.')
            break
    loaders = {name: rate for name, rate in rates.items() if rate and name.startswith('loader')}
    if enough := [name for name, rate in loaders.items() if rate >= step]:
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
    for _, group in groupby(names, lambda name: found[name].process):
        for name, result in measure([*group], videos, deadline):
            results[name] = result
            results = {name: results[name] for name in found if name in results}
            write(args.out, machine, results)
            Console().print(f'{name}: {text(result)}', highlight=False)
    if missing := [name for name in names if name not in results]:
        Console().print(f'Not measured in this time: {"; ".join(missing)}.')
    Console().print(f'\n{advice(results)}\nWritten to {args.out / "report.md"}.')


if __name__ == '__main__':
    main()
