"""The settings of a training, which follow from the options, the videos and the machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..datasets.lists import class_folders
from ..datasets.sampling import evenly_spaced, number_of_windows
from ..encoder.files import SHIPPED
from ..engine.knn_monitor import MIN_VIDEOS
from ..evaluation.labelled import hold_out_groups
from ..options import MIN_SIZE, RANDOM, Options
from .inspect import Inspection, Video

PAPER_SPAN_SECONDS = 32 / 30  # 16 frames with stride 2 at 30 frames per second (Sec. 4.1)
MIN_TRAIN_VIDEOS = 8
MIN_BATCH = 8  # if there are at least 16 videos
WATCHED_SHARE, MAX_WATCHED, MIN_TO_HOLD_OUT = 0.2, 200, 20
FEW_VIDEOS, MANY_VIDEOS = 1000, 5000
LONG_SECONDS = 600  # to read such a file takes twice as long as to decode a clip of it
EPOCHS, MIN_STEPS = 100, 2000
MIN_STEPS_FROM_START = 400  # give what 2,000 from random weights give, and more
GIVEN = 'as given'
# Learning rates (AdamW) for a number of videos per step: of narrow encoders, and of full
# width, which stay at the loss of chance with a higher one (docs/own_videos_measured.md)
LR_VIDEOS, NARROW_LR, LR = 48, 4e-3, 5e-4
DECODED_PIXELS = 5e7  # per second and core, about
STORED_SIDES = 2  # short side of stored frames, in sides of the input (datasets/frame_store.py)
LOOKS = 8  # evaluations on the watched videos during a training
MEASURING_SHARE = 0.05  # share of the training time for these evaluations


@dataclass(frozen=True)
class Network:
    """An encoder to train.

    Attributes:
        backbone: Fields of the backbone's config, except for the type.
        channels: Number of channels of the features.
        size: Default side length of the frames, in pixels; see ``Recipe.max_size``.
        preprocessor: Fields of the data preprocessor's config.
    """

    backbone: dict
    channels: int
    size: int
    preprocessor: dict = field(default_factory=dict)


SMALL = dict(depth=18, stage_blocks=(1, 1, 1, 1), channels_last=True)
ENCODERS = {
    'tiny': Network(SMALL | dict(width=0.25, conv1_kernel=(3, 5, 5)), 128, 48),
    'small': Network(SMALL | dict(width=0.5), 256, 64),
    'r3d18': Network(dict(depth=18), 512, 112),
    'r3d50': Network(dict(depth=50), 2048, 224),
}


@dataclass(frozen=True)
class Recipe:
    """Defaults of one kind of training.

    Attributes:
        encoder: A key of ``ENCODERS``.
        clip_len: Frames per clip.
        max_size: Largest default side length of the frames, in pixels.
        batch_size: Largest default number of videos per step on each device.
        hidden_layers: Hidden layers of the projection.
        span_seconds: Longest default span of a clip; see ``span_share``.
        span_share: Largest share of a short video (10th percentile) that a clip spans.
        crop: Name of the crop in the config.
        light: Range of the factors of brightness and contrast around 1.
        precision: Data type of most operations.
    """

    encoder: str
    clip_len: int
    max_size: int
    batch_size: int
    hidden_layers: int = 3
    span_seconds: float = PAPER_SPAN_SECONDS
    span_share: float = 0.5
    crop: str = 'full'
    light: float = 0.4
    precision: str = 'float32'


# With these, few videos teach more than with the paper's settings (docs/own_videos_measured.md)
FEW: dict[str, Any] = dict(
    hidden_layers=1, span_seconds=1.6, span_share=0.9, crop='gentle', light=0.8
)
MANY_ON_GPU = Recipe('r3d50', clip_len=16, max_size=224, batch_size=128, precision='bfloat16')
FEW_ON_GPU = replace(MANY_ON_GPU, encoder='r3d18', **FEW)
FEWEST_ON_GPU = replace(FEW_ON_GPU, encoder='tiny', batch_size=64)
ON_GPU = {FEW_VIDEOS: FEWEST_ON_GPU, MANY_VIDEOS: FEW_ON_GPU, math.inf: MANY_ON_GPU}
CPU = Recipe('tiny', clip_len=8, max_size=64, batch_size=48, **FEW)


@dataclass(frozen=True)
class Machine:
    """The machine of the training.

    Attributes:
        cores: Processor cores per rank.
        ranks: Number of training processes.
        on_gpu: Whether the training runs on a GPU.
        room: Number of bytes that decoded frames may take.
    """

    cores: int
    ranks: int = 1
    on_gpu: bool = False
    room: float = 0


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
        recipe: Defaults of this kind of training.
        settings: Chosen values and their reasons, by name.
    """

    train: list[Video]
    watched: list[Video]
    samples: int
    network: Network
    recipe: Recipe
    settings: dict[str, Setting]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    @property
    def min_steps(self) -> int:
        """Shortest default length."""
        return least_steps(self['init'] != RANDOM)


def split_watched(
    videos: list[Video], seed: int, groups: str | None = None
) -> tuple[list[Video], list[Video]]:
    """Hold out a fifth of the videos, at most 200, evenly distributed over the folders.

    Up to 1,000 videos, one of any five neighbours in the order of the folders is held out, so that
    each class has one. With groups, these are held out as a whole, and at most 200 of their videos
    are watched.

    Args:
        videos: All videos.
        seed: Random seed.
        groups: See :func:`.groups_of`.

    Returns:
        The training videos and the watched videos. With fewer than 20 videos, none is held out
        and both are the same list.

    Raises:
        ValueError: See :func:`.groups_of`.
    """
    if len(videos) < MIN_TO_HOLD_OUT:
        return videos, videos
    names = [video.name for video in videos]
    if groups is not None:
        held = hold_out_groups(names, [''] * len(names), groups)
    else:
        number = min(MAX_WATCHED, math.ceil(WATCHED_SHARE * len(videos)))
        order = np.random.default_rng(seed).permutation(len(videos)).tolist()
        folders = class_folders(names)
        by_folder = sorted(order, key=lambda i: folders[i])
        places = [(2 * i + 1) * len(videos) // (2 * number) for i in range(number)]
        held = {names[by_folder[place]] for place in places}
    train = [video for video in videos if video.name not in held]
    watched = [video for video in videos if video.name in held]
    return train, [watched[i] for i in evenly_spaced(len(watched), MAX_WATCHED)]


def choose(
    inspection: Inspection,
    options: Options,
    machine: Machine,
    start: Network | None = None,
    split: tuple[list[Video], list[Video]] | None = None,
    defaults: Mapping[str, Setting] | None = None,
) -> Plan:
    """Choose all settings except ``steps``, for which :func:`choose_steps` needs the time per step.

    Args:
        inspection: The videos.
        options: The options of the user.
        machine: The machine of the training.
        start: Architecture of the encoder that ``options.init`` names.
        split: Training and held-out videos. Default: by :func:`split_watched`.
        defaults: Settings in place of those that are chosen here, unless the user has given them.

    Raises:
        ValueError: There are too few videos for the training or for a batch.
    """
    train, watched = split or split_watched(inspection.videos, options.seed, options.groups)
    rates = [video.rate for video in train]
    rate = float(f'{np.median(rates):.5g}')
    samples = sum(number_of_windows(video.seconds, options.segment_seconds) for video in train)
    if samples < MIN_TRAIN_VIDEOS or len(inspection.videos) < MIN_VIDEOS:
        raise ValueError(
            f'{samples} training videos in {len(inspection.videos)} files are too few; give at '
            f'least {MIN_TRAIN_VIDEOS} in at least {MIN_VIDEOS} files.'
        )
    chosen: dict[str, Setting] = {}
    on_gpu = next(recipe for most, recipe in ON_GPU.items() if samples < most)
    recipe = on_gpu if machine.on_gpu else CPU
    kind = f'on a {"GPU" if machine.on_gpu else "CPU"} with {samples} videos'

    def take(name: str, value: object, reason: str) -> Any:
        given = getattr(options, name, None)
        default = (defaults or {}).get(name, Setting(value, reason))
        chosen[name] = default if given is None else Setting(given, GIVEN)
        return chosen[name].value

    if start is None:
        name = take('encoder', recipe.encoder, kind)
        network = ENCODERS[name]
        chosen['init'] = _start(name) if options.init is None else Setting(RANDOM, GIVEN)
    else:
        network = start
        chosen['encoder'] = Setting(GIVEN, 'with its architecture')
        chosen['init'] = Setting(GIVEN, 'a trained encoder')
    frames = take('clip_len', recipe.clip_len, f"{kind}; the paper's are 16")
    take('frame_interval', *_frame_interval(train, rate, frames, recipe))
    spread = f'{min(rates):.3g} to {max(rates):.3g}'
    take('fps', rate, f'frames per second, the median of {spread}')
    take('size', *_size(train, min(network.size, recipe.max_size)))
    chosen['colours'] = _colours(train, options)
    mirrored = 'half of the clips are mirrored; where left and right matter: --no-flip'
    chosen['flip'] = Setting(options.flip, mirrored if options.flip else GIVEN)
    cropped = 'crops are parts of the frames; where the subject is small: --no-zoom'
    chosen['zoom'] = Setting(options.zoom, cropped if options.zoom else GIVEN)
    chosen['seed'] = Setting(options.seed, 'of all random draws')
    total = machine.ranks * take('batch_size', *_batch_size(samples, machine.ranks, recipe))
    if total > samples:  # before the steps are timed
        raise ValueError(
            f'A batch of {machine.ranks} x {total // machine.ranks} videos is more than the '
            f'{samples} training videos; give a smaller --batch-size or fewer devices.'
        )
    take('lr', *_learning_rate(total, network))
    take('workers', *_workers(machine))
    chosen['cache'] = _cache(train, samples, chosen, options, machine)
    chosen['segment_seconds'] = Setting(
        options.segment_seconds if samples > len(train) else None,
        f'{len(train)} files count as {samples} videos of about {options.segment_seconds:g} s',
    )
    chosen['precision'] = Setting(recipe.precision, kind)
    classes, use = inspection.classes, 'folders, for the evaluation alone'
    chosen['classes'] = Setting(len(classes) or None, f'{use}: {", ".join(classes):.200}')
    return Plan(train, watched, samples, network, recipe, chosen)


def choose_steps(
    options: Options, per_epoch: float, step_seconds: float, epochs: int, min_steps: int
) -> Setting:
    """Choose the length of a training.

    Args:
        options: The options of the user.
        per_epoch: Number of steps in a pass over the videos, which may be a fraction.
        step_seconds: Measured time per step.
        epochs: Default length in passes over the videos.
        min_steps: Shortest default length.
    """
    if options.steps is not None:
        return Setting(options.steps, GIVEN)
    if options.epochs is not None:
        steps = math.ceil(options.epochs * per_epoch)
        return Setting(steps, f'{options.epochs} epochs of {per_epoch:.3g} steps')
    if options.hours is not None:
        steps = max(LOOKS, int(options.hours * 3600 * (1 - MEASURING_SHARE) / step_seconds))
        return Setting(steps, f'{options.hours:g} hours at {step_seconds:.2f} s per step')
    steps = max(min_steps, math.ceil(epochs * per_epoch))
    minutes = steps * step_seconds / 60
    reason = f'the larger of {min_steps} steps and {epochs} epochs; about {minutes:.0f} minutes'
    return Setting(steps, reason)


def least_steps(from_start: bool) -> int:
    """Return the shortest default length of a pre-training, from trained weights or not."""
    return MIN_STEPS_FROM_START if from_start else MIN_STEPS


def remarks(plan: Plan, advised_steps: int) -> list[str]:
    """Name what limits the training: short or long videos, or few steps.

    Args:
        plan: All settings, with ``steps``.
        advised_steps: A shorter training gets a remark.
    """
    found = []
    clip_frames = (plan['clip_len'] - 1) * plan['frame_interval'] + 1
    fps = plan['fps']
    short = sum(round((fps or video.rate) * video.seconds) < clip_frames for video in plan.train)
    if short:
        found.append(
            f'Shorter than a clip of {clip_frames} frames, and therefore repeated: {short} of the '
            f'{len(plan.train)} training videos; see --frame-interval and --clip-len.'
        )
    if long := sum(video.seconds > LONG_SECONDS for video in plan.train):
        found.append(
            f'{long} files are longer than {LONG_SECONDS / 60:g} minutes, and each sample reads '
            'its whole file; cut them first.'
        )
    return found + too_short(plan['steps'], advised_steps)


def too_short(steps: int, advised_steps: int, remedy: str = 'train for longer.') -> list[str]:
    """Return a sentence on a training of few steps; [] on a longer one."""
    if steps >= advised_steps:
        return []
    return [f'{steps:,} of at least {advised_steps:,} steps: {remedy}']


def _start(encoder: str) -> Setting:
    if encoder in SHIPPED:
        return Setting(encoder, "this package's, trained on generated videos")
    return Setting(RANDOM, f'this package has no weights of {encoder}')


def _frame_interval(
    train: list[Video], rate: float, clip_len: int, recipe: Recipe
) -> tuple[int, str]:
    """Choose the span of a clip: the recipe's, or less if many videos are short."""
    short = float(np.percentile([video.seconds for video in train], 10))
    per_second = rate / clip_len
    most, fitting = recipe.span_seconds * per_second, recipe.span_share * short * per_second
    interval = max(1, min(round(most), int(fitting)))
    span = f'a clip spans {interval / per_second:.2f} s at {rate:.3g} frames per second'
    limits = f'{recipe.span_seconds:.2f} s and {recipe.span_share:.0%} of a {short:.2g} s video'
    return interval, f'{span}, at most about {limits}'


def _size(train: list[Video], wanted: int) -> tuple[int, str]:
    side = int(np.median([min(video.width, video.height) for video in train]))
    size = max(MIN_SIZE, min(wanted, side // 16 * 16))
    return size, f'{wanted} suits the encoder and device; the short side of the videos is {side}'


def _colours(train: list[Video], options: Options) -> Setting:
    """Choose the colour augmentation: full, only brightness, or none."""
    if not options.colour:
        return Setting('none', GIVEN)
    grey = sum(video.grey for video in train) / len(train)
    if grey > 0.5:
        return Setting('brightness', f'{grey:.0%} of the videos are grey')
    return Setting('full', f'{1 - grey:.0%} of the videos have colours')


def _batch_size(samples: int, ranks: int, recipe: Recipe) -> tuple[int, str]:
    share = max(samples // 3, min(MIN_BATCH, samples // 2)) // ranks
    size = max(2, min(recipe.batch_size, share))
    return size, f'at most {recipe.batch_size} and a third of the {samples} videos in all'


def _learning_rate(total_batch: int, network: Network) -> tuple[float, str]:
    base = NARROW_LR if network.backbone.get('width', 1) < 1 else LR
    lr = base * math.sqrt(total_batch / LR_VIDEOS)
    rule = f'{base:g} for {LR_VIDEOS} videos, by the square root of the batch (AdamW)'
    return float(f'{lr:.2g}'), rule


def _cache(
    train: list[Video],
    samples: int,
    chosen: dict[str, Setting],
    options: Options,
    machine: Machine,
) -> Setting:
    """Choose the short side of stored frames; None means that each sample is decoded anew."""
    if not options.cache:
        return Setting(None, GIVEN)
    side, total = STORED_SIDES * chosen['size'].value, machine.ranks * chosen['batch_size'].value
    pixels = [video.frames * video.width * video.height for video in train]
    kept = [min(1, side / min(video.width, video.height)) ** 2 for video in train]
    num_bytes = 3 * float(np.dot(pixels, kept))
    clip_frames = (chosen['clip_len'].value - 1) * chosen['frame_interval'].value + 1
    epochs = options.epochs or (options.steps or math.inf) * total / samples
    seconds = sum(pixels) / (DECODED_PIXELS * machine.cores * machine.ranks)
    frames = sum(video.frames for video in train) / samples
    if num_bytes > machine.room:
        return Setting(None, f'{num_bytes / 1e9:.2g} GB do not fit into half of what is free')
    if 2 * clip_frames * epochs < frames or seconds > 360 * (options.hours or math.inf):
        return Setting(None, 'the training is too short to decode whole videos')
    return Setting(side, f'short side of stored frames at most, {num_bytes / 1e9:.2g} GB')


def _workers(machine: Machine) -> tuple[int, str]:
    if machine.on_gpu:
        return max(1, min(16, machine.cores - 1)), f'for {machine.cores} cores'
    half = max(1, machine.cores // 2)
    return half, f'for {machine.cores} cores; the other half is used for training'
