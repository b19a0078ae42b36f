"""Measure pre-training on this machine: steps, memory, copies, loader, a training.

Example:
    python tools/benchmarks/gpu_report.py --minutes 8 --out work_dirs/gpu_report

Each measurement runs in a separate process, the most important ones first. After each one,
OUT/results.json and OUT/report.md are written. Measurements for which no time is left are listed
as skipped. Without a GPU, all measurements run with small inputs on the CPU. This only tests the
script; the figures are meaningless.
"""

import argparse
import json
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import gpu_measurements
from gpu_measurements import LAYOUTS, STOCK, on_gpu
from rich.console import Console

from cvrl_mm.io import replacing

K400 = 'cvrl/pretrain_k400.py'
ALL_STAGES = dict(stem=1, layer1=3, layer2=4, layer3=6, layer4=3)
RECOMPUTED = dict(none={}, layer1=dict(layer1=3), all=ALL_STAGES)
# Dense bfloat16 TFLOP/s according to NVIDIA's data sheets
NOMINAL_TFLOPS = {
    'A100': 312,
    'H100 PCIe': 756,
    'H100 80GB HBM3': 989,
    'H200': 989,
}


@dataclass
class Measurement:
    """One row of the report.

    Args:
        name: Heading of the row.
        function: Name of the function in ``gpu_measurements``.
        arguments: Arguments of the function.
        limit: Time limit in seconds.
    """

    name: str
    function: str
    arguments: dict = field(default_factory=dict)
    limit: float = 120


def measurements(folder: str, workers: int, steps: int) -> list[Measurement]:
    """List all rows, the most important ones first."""
    rows = [
        Measurement('matrix product, bfloat16', 'matrix_product'),
        Measurement('FLOPs per video', 'flops_per_video'),
        *(
            Measurement(
                f'step, {layout}', 'training_step', dict(config=K400, options={}, layout=layout)
            )
            for layout in LAYOUTS
        ),
        Measurement(
            f'training, {steps} steps',
            'training',
            dict(folder=folder, workers=workers, steps=steps),
            240,
        ),
    ]
    stock = {'model.backbone': STOCK if on_gpu() else {**STOCK, 'depth': 18, 'base_channels': 8}}
    rows.append(Measurement('step, stock', 'training_step', dict(config=K400, options=stock)))
    rows += [
        Measurement(f'recomputed: {name}', 'largest_batch', dict(recompute=stages))
        for name, stages in RECOMPUTED.items()
    ]
    chunks = {'model.chunk_size': 16 if on_gpu() else 2}
    rows.append(Measurement('chunks', 'largest_batch', dict(options=chunks, recompute={})))
    rows.append(Measurement('copies', 'copies'))
    rows.append(Measurement('a batch from the workers', 'batches_from_workers'))
    rows += [
        Measurement(
            f'loader, {kind}, {count} workers',
            'loader_rate',
            dict(folder=folder, kind=kind, workers=count),
            60,
        )
        for kind in ('original', 'repacked')
        for count in ((1, 2, 4, 8, 16) if on_gpu() else (1,))
    ]
    augmented = dict(config='cvrl/pretrain_k400_device_augment.py', options={})
    rows.append(Measurement('step, device augmentation', 'training_step', augmented))
    compiled = dict(config=K400, options={}, compiled=True)
    rows.append(Measurement('step, compiled, nothing recomputed', 'training_step', compiled, 180))
    return rows


def measure(row: Measurement, seconds_left: float) -> dict:
    """Run one measurement in a new process and wait for its result."""
    # spawn: a process that is forked after CUDA has been queried cannot use the GPU
    context = multiprocessing.get_context('spawn')
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=gpu_measurements.run, args=(sender, row.function, row.arguments)
    )
    process.start()
    sender.close()
    limit = min(row.limit, seconds_left)
    try:
        if not receiver.poll(limit):
            return dict(outcome=f'ended after {limit:.0f} s')
        return receiver.recv()
    except EOFError:
        process.join(10)
        return dict(outcome=f'the process ended with {process.exitcode}')
    finally:
        end(process)


def end(process: BaseProcess) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join(10)


def text(value: object) -> str:
    """Format one value of a result."""
    if value is None:
        return 'not measured'
    if not isinstance(value, float):
        return str(value)
    return f'{value:.3g}' if abs(value) < 100 else f'{value:.0f}'


def report(machine: dict, results: dict[str, dict]) -> str:
    """Return the text of the report."""
    described = ', '.join(f'{key} {text(value)}' for key, value in machine.items())
    lines = ['# Pre-training on this machine', '', described, '']
    if not machine.get('gpu'):
        lines += [
            '**No GPU: all measurements ran with small inputs on the CPU; they are meaningless.**',
            '',
        ]
    lines += ['| measurement | result |', '|---|---|']
    for name, result in results.items():
        values = ', '.join(f'{key} {text(value)}' for key, value in result.items())
        lines.append(f'| {name} | {result.get("outcome", values)} |')
    return '\n'.join([*lines, '', advice(machine, results), ''])


def rate(results: dict[str, dict], name: str) -> float:
    """Return the videos per second of a measurement, or 0 if there are none."""
    return results.get(name, {}).get('videos_per_second', 0.0)


def advice(machine: dict, results: dict[str, dict]) -> str:
    """Recommend settings for this GPU, based on the finished measurements."""
    steps = {layout: rate(results, f'step, {layout}') for layout in LAYOUTS}
    best = max(steps, key=steps.get)
    if not steps[best]:
        return 'No step was measured, so no setting can be recommended.'
    switch = 'model.backbone.channels_last=True' if best == 'channels_last' else 'the default'
    said = [f'Fastest layout: {best} ({text(steps[best])} videos/s; {switch}).']
    product = results.get('matrix product, bfloat16', {}).get('tflops')
    gflops = results.get('FLOPs per video', {}).get('gflops')
    if product and gflops:
        used = steps[best] * gflops / 1e3
        said.append(f'This is {used / product:.0%} of the measured matrix product')
        nominal = next((n for k, n in NOMINAL_TFLOPS.items() if k in (machine.get('gpu') or '')), 0)
        said[-1] += f' and {used / nominal:.0%} of the nominal peak.' if nominal else '.'
    fitting = {
        name: results.get(f'recomputed: {name}', {}).get('largest_batch', 0) for name in RECOMPUTED
    }
    enough = [name for name, batch in fitting.items() if batch >= 128]
    if enough:
        said.append(f'The least recomputation that fits 128 videos: {enough[0]}.')
    plain, compiled = steps['loader'], rate(results, 'step, compiled, nothing recomputed')
    if plain and compiled:
        said.append(f'torch.compile without recomputation: {compiled / plain:.2f} x the rate.')
    augmented = rate(results, 'step, device augmentation')
    if plain and augmented:
        said.append(f'Device augmentation: {augmented / plain:.2f} x the rate of the step.')
    loaders = {
        name: rate(results, name)
        for name in results
        if name.startswith('loader, ') and rate(results, name)
    }
    keeping_up = [name for name, loaded in loaders.items() if loaded >= steps[best]]
    if keeping_up:
        said.append(f'The first loader that keeps up: {keeping_up[0].removeprefix("loader, ")}.')
    elif loaders:
        said.append('No measured loader keeps up with the step.')
    waiting = results.get('training, 50 steps', {}).get('waiting_for_data')
    if waiting is not None:
        said.append(f'A training waited for data {waiting:.0%} of the time.')
    return ' '.join(said)


def write(out: Path, machine: dict, results: dict[str, dict]) -> None:
    """Write both files; an interruption does not damage existing ones."""
    contents = {
        'results.json': json.dumps(dict(machine=machine, results=results), indent=1),
        'report.md': report(machine, results),
    }
    for name, content in contents.items():
        with replacing(out / name) as part:
            part.write_text(content, 'utf-8')


def main() -> None:
    """Run the measurements until the time limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--minutes', type=float, default=8, help='time for everything')
    parser.add_argument('--out', type=Path, required=True, help='folder of the results')
    args = parser.parse_args()
    if not args.minutes > 0:
        parser.error(f'--minutes must be positive, got {args.minutes}')
    deadline = time.monotonic() + 60 * args.minutes
    (videos := args.out / 'videos').mkdir(parents=True, exist_ok=True)

    console = Console()
    machine = measure(Measurement('machine', 'machine'), 120)
    workers = min(machine.get('cores', 1), 16) if on_gpu() else 1
    rows = measurements(str(videos.resolve()), workers, steps=50 if on_gpu() else 3)
    results: dict[str, dict] = {}
    for row in rows:
        left = deadline - time.monotonic()
        shown = measure(row, left) if left > 5 else dict(outcome='skipped: no time left')
        results[row.name] = shown
        write(args.out, machine, results)
        console.print(
            f'{row.name}: '
            + shown.get('outcome', ', '.join(f'{k} {text(v)}' for k, v in shown.items())),
            highlight=False,
        )
    console.print(f'\n{advice(machine, results)}\nWritten to {args.out / "report.md"}.')


if __name__ == '__main__':
    main()
