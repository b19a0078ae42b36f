"""Choose the settings of a training from the videos and the machine, each with its reason."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .inspection import Inspection, Video


@dataclass(frozen=True)
class Network:
    """An encoder to train.

    Attributes:
        backbone: What its config sets beside the type.
        channels: Of its output.
        size: Side of the frames that suits it on a GPU, in pixels.
        preprocessor: What the config of the data preprocessor sets.
    """

    backbone: dict
    channels: int
    size: int
    preprocessor: dict = field(default_factory=dict)


ENCODERS = {
    'small': Network(dict(depth=18, width=0.5, stage_blocks=(1, 1, 1, 1)), 256, 64),
    'r3d18': Network(dict(depth=18), 512, 112),
    'r3d50': Network(dict(depth=50), 2048, 224),
}
PAPER_SPAN_SECONDS = 32 / 30  # 16 frames, every second one of 30 per second (Sec. 4.1)
CPU_SIZE = 64
MIN_TRAIN_VIDEOS = 8
FEW_VIDEOS = 1000
MANY_VIDEOS = 5000
MIN_STEPS = 2000
EPOCHS = 100
WATCHED_SHARE = 0.2
MAX_WATCHED = 200
BASE_LR, BASE_BATCH = 4e-3, 64  # of our short trainings (_base_/schedules/miniature_adamw.py)
LOOKS = 8  # at the watched videos during a training
MEASURING_SHARE = 0.05  # of the time of a training
MIN_TO_HOLD_OUT = 20
# Counted on the meta device in bfloat16: 84.1 GiB for 128 videos of 2 x 16 x 224 x 224, R3D-50
BYTES_PER_VIDEO = 84.1 * 2**30 / 128
USABLE_MEMORY = 0.8


@dataclass(frozen=True)
class Options:
    """What a user may set; None means that it is chosen.

    Attributes:
        encoder: A key of ``ENCODERS``.
        clip_len: Frames per clip.
        frame_interval: Distance between a clip's neighbouring frames.
        size: Side of the frames that the encoder sees, in pixels.
        batch_size: Videos per step on each device.
        lr: Learning rate.
        hours: Length of the training in hours.
        epochs: Length of the training in passes over the videos.
        steps: Length of the training in steps.
        workers: Processes per device that load videos.
        init: Checkpoint to start from.
        flip: Mirror half of the clips.
        colour: Change colours, and make some clips grey.
        zoom: Crop down to 30 % of the area; without it down to 80 %.
        segment_seconds: Longer files count as several videos of this length.
        seed: Of all random draws.
    """

    encoder: str | None = None
    clip_len: int | None = None
    frame_interval: int | None = None
    size: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    hours: float | None = None
    epochs: int | None = None
    steps: int | None = None
    workers: int | None = None
    init: str | None = None
    flip: bool = True
    colour: bool = True
    zoom: bool = True
    segment_seconds: float = 30.0
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = [x for x in (self.hours, self.epochs, self.steps) if x is not None]
        if len(lengths) > 1:
            raise ValueError('hours, epochs and steps exclude each other; give one of them.')
        if self.encoder is not None and self.encoder not in ENCODERS:
            raise ValueError(f'encoder must be one of {list(ENCODERS)}, got {self.encoder!r}.')
        for name in ('clip_len', 'frame_interval', 'batch_size', 'epochs', 'steps'):
            value = getattr(self, name)
            if value is not None and value < (2 if name == 'batch_size' else 1):
                raise ValueError(f'{name} is too small: {value}.')
        for name in ('lr', 'hours', 'segment_seconds'):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f'{name} must be above 0, got {value}.')
        if self.encoder is not None and self.init is not None:
            raise ValueError('init brings its own architecture; leave encoder out.')
        if self.size is not None and self.size < 32:
            raise ValueError(f'size must be at least 32 pixels, got {self.size}.')
        if self.workers is not None and self.workers < 0:
            raise ValueError(f'workers must be at least 0, got {self.workers}.')


@dataclass(frozen=True)
class Machine:
    """Where the training runs.

    Attributes:
        cores: Processor cores for this rank.
        ranks: Processes that train.
        gpu_bytes: Memory of the GPU, None on the CPU.
    """

    cores: int
    ranks: int = 1
    gpu_bytes: int | None = None


@dataclass(frozen=True)
class Setting:
    """A chosen value and why."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Plan:
    """All settings of a training.

    Attributes:
        train: Videos to train on.
        watched: Videos to measure on; the same ones where there are too few to hold some out.
        samples: Training samples per epoch: the videos, long ones counted several times.
        network: The encoder.
        settings: By name, the chosen value and its reason.
    """

    train: list[Video]
    watched: list[Video]
    samples: int
    network: 'Network'
    settings: dict[str, Setting]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    @property
    def held_out(self) -> bool:
        """Whether the watched videos are not trained on."""
        return self.watched is not self.train


def choose(
    inspection: Inspection, options: Options, machine: Machine, start: Network | None = None
) -> Plan:
    """Choose all settings except the number of steps, which needs the time per step.

    Args:
        inspection: The videos.
        options: What the user has set.
        machine: Where the training runs.
        start: The encoder of ``options.init``.

    Raises:
        ValueError: there are too few videos, or a clip does not fit into them.
    """
    train, watched = split_watched(inspection.videos, options.seed)
    rate = float(np.median([video.probe.rate for video in train]))
    window_frames = max(1, round(options.segment_seconds * rate))
    samples = sum(number_of_windows(video.probe.frames, window_frames) for video in train)
    if samples < MIN_TRAIN_VIDEOS:
        raise ValueError(
            f'{samples} training videos are too few: each is told apart from the others of its '
            f'batch, so give at least {MIN_TRAIN_VIDEOS}. A file of n times '
            f'{options.segment_seconds:g} s counts n times (--segment-seconds).'
        )
    chosen: dict[str, Setting] = {}

    def take(name: str, value: object, reason: str) -> None:
        given = getattr(options, name, None)
        chosen[name] = Setting(value, reason) if given is None else Setting(given, 'as given')

    on_gpu = machine.gpu_bytes is not None
    if start is None:
        take('encoder', *_encoder(samples, on_gpu))
        network = ENCODERS[chosen['encoder'].value]
    else:
        chosen['encoder'] = Setting(options.init, 'to start from, as given')
        network = start
    take('clip_len', *((16, "the paper's") if on_gpu else (8, 'half of the paper on a CPU')))
    take('frame_interval', *_frame_interval(train, rate, chosen['clip_len'].value))
    take('size', *_size(train, network, on_gpu))
    take('batch_size', *_batch_size(samples, machine))
    total = chosen['batch_size'].value * machine.ranks
    if total > samples:
        raise ValueError(
            f'A batch of {total} videos needs as many training videos, and there are {samples}; '
            f'give a batch size of at most {samples // machine.ranks}.'
        )
    rule = f'{BASE_LR:g} for {BASE_BATCH} videos per step, by the square root of the batch (AdamW)'
    lr = BASE_LR * math.sqrt(total / BASE_BATCH)
    if options.init is not None:
        lr, rule = lr / 4, f'{rule}, a quarter of it because the weights are trained already'
    take('lr', float(f'{lr:.2g}'), rule)
    workers = min(8, machine.cores - 1) if on_gpu else machine.cores // 2
    take('workers', max(1, workers), f'for {machine.cores} cores' + _half(on_gpu))
    chosen['window_frames'] = Setting(
        window_frames if samples > len(train) else None,
        f'{len(train)} files count as {samples} videos of about {options.segment_seconds:g} s',
    )
    chosen['precision'] = Setting(on_gpu, 'bfloat16 on a GPU, float32 on a CPU')
    chosen['chunk_size'] = Setting(*_chunk_size(chosen, machine))
    return Plan(train, watched, samples, network, chosen)


def number_of_windows(frames: int, window_frames: int) -> int:
    """How many videos a file counts as."""
    return max(1, frames // window_frames)


def choose_steps(plan: Plan, options: Options, total_batch: int, step_seconds: float) -> Setting:
    """Choose the length of a training.

    Args:
        plan: The other settings.
        options: What the user has set.
        total_batch: Videos per step on all devices.
        step_seconds: Measured time per step.
    """
    if options.steps is not None:
        return Setting(options.steps, 'as given')
    if options.epochs is not None:
        steps = math.ceil(options.epochs * plan.samples / total_batch)
        return Setting(steps, f'{options.epochs} epochs of {plan.samples} videos')
    if options.hours is not None:
        steps = max(LOOKS, int(options.hours * 3600 * (1 - MEASURING_SHARE) / step_seconds))
        return Setting(steps, f'{options.hours:g} hours at {step_seconds:.2f} s per step')
    steps = max(MIN_STEPS, math.ceil(EPOCHS * plan.samples / total_batch))
    hours = steps * step_seconds / 3600
    return Setting(
        steps, f'the larger of {MIN_STEPS} steps and {EPOCHS} epochs; about {hours:.1f} hours'
    )


def split_watched(videos: list[Video], seed: int) -> tuple[list[Video], list[Video]]:
    """Hold out a fifth of the videos, evenly over the folders.

    Args:
        videos: All videos.
        seed: Of the draw.

    Returns:
        The videos to train on and those to watch; of fewer than 20 videos none is held out, and
        both are the same list.
    """
    if len(videos) < MIN_TO_HOLD_OUT:
        return videos, videos
    number = min(MAX_WATCHED, round(WATCHED_SHARE * len(videos)))
    order = np.random.default_rng(seed).permutation(len(videos)).tolist()
    by_folder = sorted(order, key=lambda i: videos[i].folder)
    chosen = {by_folder[i] for i in np.linspace(0, len(videos) - 1, number).round().astype(int)}
    train = [video for i, video in enumerate(videos) if i not in chosen]
    return train, [videos[i] for i in sorted(chosen)]


def _encoder(samples: int, on_gpu: bool) -> tuple[str, str]:
    if not on_gpu:
        return 'small', 'one block per stage and half the channels of R3D-18, for a CPU'
    if samples < MANY_VIDEOS:
        return 'r3d18', f'fewer than {MANY_VIDEOS} videos do not need R3D-50'
    return 'r3d50', "the paper's"


def _frame_interval(train: list[Video], rate: float, clip_len: int) -> tuple[int, str]:
    """About the paper's span in seconds, at most half of all but the shortest videos."""
    short = float(np.percentile([video.probe.seconds for video in train], 10))
    span = min(PAPER_SPAN_SECONDS, short / 2)
    interval = max(1, int(span * rate / clip_len))
    seconds = interval * clip_len / rate
    limit = "the paper's" if span == PAPER_SPAN_SECONDS else f'half of a {short:.2g} s video'
    return interval, f'a clip spans {seconds:.2f} s at {rate:.3g} frames per second, near {limit}'


def _size(train: list[Video], network: Network, on_gpu: bool) -> tuple[int, str]:
    side = int(np.median([min(video.probe.width, video.probe.height) for video in train]))
    wanted = network.size if on_gpu else CPU_SIZE
    size = max(32, min(wanted, side // 16 * 16))
    return size, f'{wanted} suits the encoder and device; the short side of the videos is {side}'


def _batch_size(samples: int, machine: Machine) -> tuple[int, str]:
    limit = 128 if machine.gpu_bytes is not None else 32
    wanted = max(2, samples // 4 // machine.ranks)
    size = min(limit, 2 ** int(math.log2(wanted)))
    return size, f'at most a quarter of the {samples} videos, and at most {limit} per device'


def _chunk_size(chosen: dict[str, Setting], machine: Machine) -> tuple[int | None, str]:
    """Videos whose activations fit into the memory of the GPU, None if all do."""
    if machine.gpu_bytes is None:
        return None, 'the activations fit into the memory of a CPU'
    pixels = chosen['clip_len'].value * chosen['size'].value ** 2
    per_video = BYTES_PER_VIDEO * pixels / (16 * 224**2)
    fitting = max(2, int(USABLE_MEMORY * machine.gpu_bytes / per_video))
    gib = chosen['batch_size'].value * per_video / 2**30
    if fitting >= chosen['batch_size'].value:
        return None, f'at most {gib:.1f} GiB of activations fit into the memory'
    return fitting, f'{gib:.1f} GiB of activations do not fit into the memory at once'


def _half(on_gpu: bool) -> str:
    return '' if on_gpu else '; the other half computes'
