"""Choose the settings of a training from the videos and the machine, with reasons."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.representation_hook import MIN_VIDEOS
from .inspection import Inspection, Video
from .lists import number_of_windows, split_watched
from .network import ENCODERS, Network
from .options import MIN_BATCH_SIZE, MIN_SIZE, Options

PAPER_SPAN_SECONDS = 32 / 30  # 16 frames with stride 2 at 30 frames per second (Sec. 4.1)
CPU_SIZE = 64
MIN_TRAIN_VIDEOS = 8
MIN_BATCH = 8  # if there are at least 16 videos
FEW_VIDEOS = 1000
MANY_VIDEOS = 5000
MIN_STEPS = 2000
EPOCHS = 100
SHORT_HOURS = 1.0
FEW_STEPS = 200  # with fewer steps, a warning is printed
BASE_LR, BASE_BATCH = 4e-3, 64  # for short trainings with AdamW
LOOKS = 8  # evaluations on the watched videos during a training
MEASURING_SHARE = 0.05  # share of the training time for these evaluations


@dataclass(frozen=True)
class Machine:
    """The machine of the training.

    Attributes:
        cores: Processor cores per rank.
        ranks: Number of training processes.
        on_gpu: Whether the training runs on a GPU.
    """

    cores: int
    ranks: int = 1
    on_gpu: bool = False


@dataclass(frozen=True)
class Setting:
    """A chosen value and the reason for it."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Plan:
    """All settings of a training.

    Attributes:
        train: Training videos.
        watched: Videos for the evaluation; the same list if there are too few to hold some out.
        samples: Number of training samples per epoch; long videos count several times.
        network: The encoder.
        settings: Chosen values and their reasons, by name.
    """

    train: list[Video]
    watched: list[Video]
    samples: int
    network: Network
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
    """Choose all settings except ``steps`` and ``memory``.

    These two need the config; see :func:`choose_steps` and :mod:`.memory`.

    Args:
        inspection: The videos.
        options: The options of the user.
        machine: The machine of the training.
        start: Architecture of the encoder of ``options.init``.

    Raises:
        ValueError: There are too few videos for the training or for a batch.
    """
    train, watched = split_watched(inspection.videos, options.seed)
    rate = float(np.median([video.probe.rate for video in train]))
    window_frames = max(1, round(options.segment_seconds * rate))
    samples = sum(number_of_windows(video.probe.frames, window_frames) for video in train)
    if samples < MIN_TRAIN_VIDEOS:
        raise ValueError(
            f'{samples} training videos are too few: each one is contrasted with the others of its '
            f'batch, so give at least {MIN_TRAIN_VIDEOS}. In long files, every '
            f'{options.segment_seconds:g} s count as one video; --segment-seconds sets this length.'
        )
    if len(inspection.videos) < MIN_VIDEOS:
        raise ValueError(
            f'At least {MIN_VIDEOS} files are needed, because the evaluation searches for files '
            f'among the others; got {len(inspection.videos)}. Cut a long file into parts first; '
            'docs/own_videos.md has a command.'
        )
    chosen: dict[str, Setting] = {}

    def take(name: str, value: object, reason: str) -> None:
        given = getattr(options, name, None)
        chosen[name] = Setting(value, reason) if given is None else Setting(given, 'as given')

    if start is None:
        take('encoder', *_encoder(samples, machine.on_gpu, options.hours))
        network = ENCODERS[chosen['encoder'].value]
    else:
        chosen['encoder'] = Setting(options.init, 'to start from, as given')
        network = start
    clip_len = (16, "the paper's") if machine.on_gpu else (8, "half of the paper's 16, on a CPU")
    take('clip_len', *clip_len)
    take('frame_interval', *_frame_interval(train, rate, chosen['clip_len'].value))
    take('size', *_size(train, network, machine.on_gpu))
    chosen['colour'] = _colour(train, options)
    take('batch_size', *_batch_size(samples, machine))
    total = chosen['batch_size'].value * machine.ranks
    if total > samples:
        most = samples // machine.ranks
        advice = f'give a batch size of at most {most}'
        if most < MIN_BATCH_SIZE:
            advice = f'train on at most {samples // MIN_BATCH_SIZE} devices'
        raise ValueError(
            f'A batch of {total} videos needs as many training videos, and there are {samples}; '
            f'{advice}.'
        )
    take('lr', *_learning_rate(total, options.init is not None))
    take('workers', *_workers(machine))
    chosen['window_frames'] = Setting(
        window_frames if samples > len(train) else None,
        f'{len(train)} files count as {samples} videos of about {options.segment_seconds:g} s',
    )
    precision = ('bfloat16', 'on a GPU') if machine.on_gpu else ('float32', 'on a CPU')
    chosen['precision'] = Setting(*precision)
    return Plan(train, watched, samples, network, chosen)


def choose_steps(plan: Plan, options: Options, total_batch: int, step_seconds: float) -> Setting:
    """Choose the length of a training.

    Args:
        plan: The other settings.
        options: The options of the user.
        total_batch: Number of videos per step on all devices.
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


def remarks(plan: Plan, options: Options) -> list[str]:
    """Name what limits the training: short videos, few videos or few steps.

    Args:
        plan: All settings, with ``steps``.
        options: The options of the user.
    """
    found = []
    clip_frames = (plan['clip_len'] - 1) * plan['frame_interval'] + 1
    short = sum(video.probe.frames < clip_frames for video in plan.train)
    if short:
        found.append(
            f'{short} of the {len(plan.train)} training videos are shorter than a clip, which '
            f'spans {clip_frames} frames: their clips continue at the first frame. Choose a '
            'smaller --frame-interval or --clip-len, or leave these videos out.'
        )
    if options.init is None and plan.samples < FEW_VIDEOS:
        found.append(
            f'{plan.samples} videos are few for training from scratch. Use --init CHECKPOINT '
            'to start from an encoder trained on more, such as a converted CVRL checkpoint.'
        )
    if plan['steps'] < FEW_STEPS:
        found.append(
            f'{plan["steps"]} steps are too few to learn much; the default is at least '
            f'{MIN_STEPS} (without --hours, --epochs and --steps).'
        )
    return found


def _encoder(samples: int, on_gpu: bool, hours: float | None) -> tuple[str, str]:
    if not on_gpu and hours is not None and hours < SHORT_HOURS:
        return 'tiny', "a quarter of R3D-18's channels: more steps in less than an hour on a CPU"
    if not on_gpu:
        return 'small', 'one block per stage and half the channels of R3D-18, for a CPU'
    if samples < MANY_VIDEOS:
        return 'r3d18', f'fewer than {MANY_VIDEOS} videos do not need R3D-50'
    return 'r3d50', "the paper's"


def _frame_interval(train: list[Video], rate: float, clip_len: int) -> tuple[int, str]:
    """Choose a clip span near the paper's, at most half of the 10th percentile of the lengths."""
    short = float(np.percentile([video.probe.seconds for video in train], 10))
    per_second = rate / clip_len
    papers, half = round(PAPER_SPAN_SECONDS * per_second), int(short / 2 * per_second)
    interval = max(1, min(papers, half))
    seconds = interval * clip_len / rate
    limit = "the paper's" if papers <= half else f'half of a {short:.2g} s video'
    return interval, f'a clip spans {seconds:.2f} s at {rate:.3g} frames per second, near {limit}'


def _size(train: list[Video], network: Network, on_gpu: bool) -> tuple[int, str]:
    side = int(np.median([min(video.probe.width, video.probe.height) for video in train]))
    wanted = network.size if on_gpu else CPU_SIZE
    size = max(MIN_SIZE, min(wanted, side // 16 * 16))
    return size, f'{wanted} suits the encoder and device; the short side of the videos is {side}'


def _colour(train: list[Video], options: Options) -> Setting:
    """Choose the colour augmentation: full, only brightness, or none."""
    if not options.colour:
        return Setting('none', 'as given')
    grey = sum(video.probe.grey for video in train) / len(train)
    if grey > 0.5:
        return Setting('brightness', f'{grey:.0%} of the videos are grey')
    return Setting('full', f'{1 - grey:.0%} of the videos have colours')


def _batch_size(samples: int, machine: Machine) -> tuple[int, str]:
    limit = 128 if machine.on_gpu else 32
    share = max(samples // 4, min(MIN_BATCH, samples // 2))
    size = min(limit, 2 ** int(math.log2(max(2, share // machine.ranks))))
    reason = f'about a quarter of the {samples} videos or {MIN_BATCH}'
    if machine.ranks > 1:
        reason += f' on {machine.ranks} devices together'
    return size, f'{reason}, at most {limit} per device'


def _learning_rate(total_batch: int, trained_already: bool) -> tuple[float, str]:
    lr = BASE_LR * math.sqrt(total_batch / BASE_BATCH)
    rule = f'{BASE_LR:g} for {BASE_BATCH} videos per step, by the square root of the batch (AdamW)'
    if trained_already:
        lr, rule = lr / 4, f'{rule}, a quarter of it because the weights are trained already'
    return float(f'{lr:.2g}'), rule


def _workers(machine: Machine) -> tuple[int, str]:
    if machine.on_gpu:
        return max(1, min(8, machine.cores - 1)), f'for {machine.cores} cores'
    return max(
        1, machine.cores // 2
    ), f'for {machine.cores} cores; the other half is used for training'
