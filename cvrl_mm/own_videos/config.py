"""The text of the config of a training and of the lists that it reads."""

from pathlib import Path
from textwrap import wrap
from typing import Any

from ..datasets.sampling import number_of_windows
from .folder import INIT, INPUTS
from .inspect import Inspection
from .plan import LOOKS, Options, Plan

CROPS = dict(
    full='',
    gentle=', area_range=(0.4, 1.0), aspect_ratio_range=(0.75, 1.33)',
    little=', area_range=(0.8, 1.0)',
)
WARMUP_SHARE = 0.1
CHECKPOINTS = 10  # written during a training
MAX_LOG_INTERVAL = 10
LINE = 100
JITTER = 'dict(_base_.{}, brightness=light, contrast=light)'
COLOURS = dict(
    full=[JITTER.format('jitter'), '_base_.grayscale'],
    brightness=[JITTER.format('light_jitter')],
    none=[],
)

TEMPLATE = Path(__file__).with_name('config.template')


def shared_fields(plan: Plan, options: Options) -> dict[str, Any]:
    """Return the fields that the templates of pre-training and fine-tuning share."""
    settings, steps = plan.settings, plan['steps']
    counted = ['fps'] if plan['fps'] else []

    def why(title: str, *names: str) -> str:
        reasons = (f'{settings[name].value} ({settings[name].reason})' for name in names)
        return comment(f'{title}: {"; ".join(reasons)}')

    return dict(
        plan=plan,
        options=options,
        inputs=INPUTS,
        encoder_why=why('Encoder', 'encoder'),
        clip_why=why('Clips', 'clip_len', 'frame_interval', *counted),
        size_why=why('Frames', 'size'),
        batch_why=why('Batch', 'batch_size'),
        workers_why=why('Workers', 'workers'),
        cache_why=why('Stored frames', 'cache'),
        cache=f"dict(folder=folder + 'frames', short_side={plan['cache']})"
        if plan['cache']
        else None,
        length_why=why('Steps', 'steps'),
        lr_why=why('Learning rate', 'lr'),
        log=max(1, min(MAX_LOG_INTERVAL, steps // 20)),
        checkpoints=max(1, steps // CHECKPOINTS),
    )


def render(inspection: Inspection, plan: Plan, options: Options) -> str:
    """Return the text of the config, without any name or path of the user.

    Args:
        inspection: The videos.
        plan: All settings, including ``steps``.
        options: The options of the user; only the augmentation, ``init`` and ``seed`` are used.
    """
    steps, size, recipe = plan['steps'], plan['size'], plan.recipe
    warmup_steps = round(WARMUP_SHARE * steps)
    window, segment, colours = '', plan.settings['segment_seconds'], plan.settings['colours']
    if segment.value:
        window = comment(
            f'Long files: {segment.value} seconds per sample ({segment.reason}), as in '
            'lists/train_windows.txt; another length needs --segment-seconds and a new folder'
        )
        window += f"\nwindow = dict(type='VideoWindow', window_seconds={segment.value})\n"
    if options.init is None:
        backbone = f'dict({", ".join(f"{k}={v!r}" for k, v in plan.network.backbone.items())})'
    else:
        init = f"dict(type='Pretrained', checkpoint=folder + '{INIT}', prefix='backbone.')"
        backbone = f"dict(inputs['backbone'], init_cfg={init})"
    transforms = [
        f'dict(_base_.crop{CROPS[recipe.crop if options.zoom else "little"]})',
        'resize',
        *(['_base_.flip'] if options.flip else []),
        *COLOURS[colours.value],
        'blur',
    ]
    off = [f'no {name}, ' for name in ('flip', 'zoom') if not getattr(options, name)]
    augment = f'{"".join(off)}colours: {colours.value} ({colours.reason})'
    watched = f'{len(plan.watched)} held-out videos for evaluation'
    if not plan.held_out:
        watched = 'the training videos, because there are too few to hold some out'
    return TEMPLATE.read_text(encoding='utf-8').format(
        **shared_fields(plan, options),
        videos=len(inspection.videos),
        hours=sum(video.seconds for video in inspection.videos) / 3600,
        backbone=backbone,
        preprocessor=", data_preprocessor=inputs['data_preprocessor']" if options.init else '',
        augment_why=comment(f'Augmentation {recipe.kind}: {augment}'),
        light=(round(1 - recipe.light, 2), round(1 + recipe.light, 2)),
        sigma=max(0.5, 2.0 * size / 224),
        kernel=max(3, size // 10 | 1),
        transforms=', '.join(transforms),
        window=window,
        window_name='window, ' if window else '',
        train='train_windows' if window else 'train',
        watched_why=comment(f'Watched: {watched}'),
        looks=max(1, steps // LOOKS),
        # A warm-up of one step would never reach the full learning rate
        warmup=f'dict(_base_.warmup, end={warmup_steps}), ' if warmup_steps > 1 else '',
        precision="type='AutocastOptimWrapper', " if plan['precision'] == 'bfloat16' else '',
    )


def comment(text: str) -> str:
    """Return text as a comment of a config."""
    return '\n'.join(wrap(text, LINE, initial_indent='# ', subsequent_indent='# '))


def lists_of(inspection: Inspection, plan: Plan) -> dict[str, list[str]]:
    """Return the lines of the lists ``train``, ``watched``, ``all`` and ``classes``.

    If long files count as several samples, ``train_windows`` has one line ``path window`` per
    sample. The labels of the other lists are the folders' indices, or -1.

    Args:
        inspection: The videos.
        plan: Training and watched videos, and ``segment_seconds``.
    """
    numbers = {name: label for label, name in enumerate(inspection.classes)}
    folders = zip(inspection.videos, inspection.folders, strict=True)
    labels = {video.name: numbers.get(folder, -1) for video, folder in folders}
    parts = dict(train=plan.train, watched=plan.watched, all=inspection.videos)
    lists = {
        name: [f'{video.name} {labels[video.name]}' for video in videos]
        for name, videos in parts.items()
    } | dict(classes=inspection.classes)
    if (segment := plan['segment_seconds']) is not None:
        lists['train_windows'] = [
            f'{video.name} {window}'
            for video in plan.train
            for window in range(number_of_windows(video.seconds, segment))
        ]
    return lists
