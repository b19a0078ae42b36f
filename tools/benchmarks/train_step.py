"""What a training step costs: precision, layout, compilation, recomputation, chunks.

Example:
    python tools/benchmarks/train_step.py
    python tools/benchmarks/train_step.py --clips 64 --frames 16 --size 224 --width 1

Forward and backward of the backbone, ours beside MMAction2's ``ResNet3dSlowOnly`` of the same
shape, then whole CVRL steps, plain and in chunks. All variants take turns; the median counts.
FLOPs are counted on the actual forward and backward pass; the peak that they are held against
is a large matrix product of the same precision, measured in the same run.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmaction.utils import register_all_modules
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

import cvrl_mm

CUDA = torch.cuda.is_available()
DEVICE = torch.device('cuda' if CUDA else 'cpu')
Step = Callable[[], None]


def autocast(dtype: torch.dtype) -> AbstractContextManager:
    """Cast to ``dtype`` within; nothing for float32."""
    return torch.autocast(DEVICE.type, dtype, enabled=dtype != torch.float32)


def backbone_step(args: argparse.Namespace, kind: str, dtype: torch.dtype, *how: str) -> Step:
    """Build one variant's forward and backward of a batch of clips."""
    stem = dict(conv1_kernel=(5, 7, 7), conv1_stride_t=2)
    common = dict(depth=args.depth, with_cp='recompute' in how)
    last = 'channels last' in how
    cfg = dict(type='R3DSlow', width=args.width, channels_last=last, **common)
    if kind == 'stock':
        base = int(64 * args.width)
        cfg = dict(type='ResNet3dSlowOnly', base_channels=base, pretrained=None, **stem, **common)
    network = MODELS.build(cfg).to(DEVICE)
    network.train()  # the stock one returns None
    clips = torch.rand(args.clips, 3, args.frames, args.size, args.size, device=DEVICE)
    if last:
        network = network.to(memory_format=torch.channels_last_3d)
        clips = clips.contiguous(memory_format=torch.channels_last_3d)
    forward = torch.compile(network) if 'compile' in how else network

    def step() -> None:
        network.zero_grad(set_to_none=True)
        with autocast(dtype):
            pooled = forward(clips).mean((2, 3, 4))
        pooled.float().square().mean().backward()

    return step


def recognizer_step(args: argparse.Namespace, chunk_size: int | None) -> Step:
    """Build a whole step of CVRL: preprocessing, contrastive loss, backward, bfloat16."""
    features = (512 if args.depth < 50 else 2048) * args.width
    preprocessor = dict(
        type='ActionDataPreprocessor', mean=[0] * 3, std=[255] * 3, format_shape='NCTHW'
    )
    model = MODELS.build(
        dict(
            type='CVRL',
            chunk_size=chunk_size,
            backbone=dict(type='R3DSlow', depth=args.depth, width=args.width),
            cls_head=dict(type='InfoNCEHead', in_channels=int(features)),
            data_preprocessor=preprocessor,
        )
    )
    model = model.to(DEVICE).train()
    shape = (2, 3, args.frames, args.size, args.size)
    videos = [torch.randint(256, shape, dtype=torch.uint8) for _ in range(args.clips // 2)]

    def step() -> None:
        model.zero_grad(set_to_none=True)
        samples = [ActionDataSample() for _ in videos]
        data = model.data_preprocessor(dict(inputs=videos, data_samples=samples), training=True)
        with autocast(torch.bfloat16):
            loss = model(**data, mode='loss')['loss']
        loss.backward()

    return step


def variants(args: argparse.Namespace) -> dict[str, tuple[Step, torch.dtype]]:
    """Build every row of the table."""
    half = dict(fp16=torch.float16) if CUDA else {}  # no half convolutions on a CPU
    dtypes = dict(fp32=torch.float32, **half, bf16=torch.bfloat16)
    rows = {}
    for kind in ('ours', 'stock'):
        for name, dtype in dtypes.items():
            rows[f'{kind}, {name}'] = backbone_step(args, kind, dtype), dtype
        extras = [('channels last',), ('channels last', 'recompute')]
        if args.compile:
            extras.insert(1, ('channels last', 'compile'))
        for how in extras:
            step = backbone_step(args, kind, torch.bfloat16, *how)
            rows[f'{kind}, bf16, {", ".join(how)}'] = step, torch.bfloat16
    rows['CVRL, bf16'] = recognizer_step(args, None), torch.bfloat16
    chunk = max(args.clips // 8, 1)
    rows[f'CVRL, bf16, chunks of {chunk}'] = recognizer_step(args, chunk), torch.bfloat16
    return rows


def seconds(step: Step) -> float:
    """Time one step on the device's own clock."""
    if not CUDA:
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def peak_flops(dtype: torch.dtype) -> float:
    """Measure a large matrix product's FLOP/s."""
    n = 8192 if CUDA else 2048
    a, b = (torch.randn(n, n, device=DEVICE, dtype=dtype) for _ in range(2))
    return 2 * n**3 / statistics.median(seconds(lambda: a @ b) for _ in range(10))


def count_flops(step: Step) -> int:
    """Count the FLOPs of a step as it runs."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def peak_memory(step: Step) -> float | None:
    """Highest memory of a step on the device in GiB; not known on a CPU."""
    if not CUDA:
        return None
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated() / 2**30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--clips', type=int, default=64 if CUDA else 8)
    parser.add_argument('--frames', type=int, default=16 if CUDA else 8)
    parser.add_argument('--size', type=int, default=224 if CUDA else 64)
    parser.add_argument('--width', type=float, default=1 if CUDA else 0.25)
    parser.add_argument('--depth', type=int, default=50)
    parser.add_argument('--steps', type=int, default=20 if CUDA else 5)
    parser.add_argument(
        '--compile',
        action=argparse.BooleanOptionalAction,
        default=CUDA,
        help='also measure torch.compile, which takes minutes to compile on a CPU',
    )
    args = parser.parse_args()
    register_all_modules()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True

    rows = variants(args)
    flops = count_flops(rows['ours, fp32'][0])
    peaks = {dtype: peak_flops(dtype) for dtype in {dtype for _, dtype in rows.values()}}
    for step, _ in rows.values():  # warm-up, compilation
        step(), step()
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in track(range(args.steps), 'steps'):
        for name, (step, _) in rows.items():
            times[name].append(seconds(step))

    device = torch.cuda.get_device_name() if CUDA else f'CPU, {torch.get_num_threads()} threads'
    shape = f'{args.clips} clips of {args.frames}x{args.size}x{args.size}'
    table = Table(
        title=f'R3D-{args.depth}, width {args.width}, {shape}; {device}; '
        f'torch {torch.__version__}; cvrl_mm {cvrl_mm.__version__}'
    )
    for heading in ('variant', 'clips/s', 'x ours, fp32', 'share of peak', 'memory, GiB'):
        table.add_column(heading, justify='left' if heading == 'variant' else 'right')
    reference = statistics.median(times['ours, fp32'])
    for name, (step, dtype) in rows.items():
        median, memory = statistics.median(times[name]), peak_memory(step)
        table.add_row(
            name,
            f'{args.clips / median:.1f}',
            f'{reference / median:.2f}',
            f'{flops / median / peaks[dtype]:.0%}',
            'not measured' if memory is None else f'{memory:.1f}',
        )
    Console().print(table)


if __name__ == '__main__':
    main()
