"""The text of the config of a training and of the lists that it reads."""

from pathlib import Path
from textwrap import wrap
from typing import Any

from mmengine.dist import get_world_size

from ..datasets.sampling import number_of_windows
from ..encoder.encoder import NUM_CLIPS
from ..options import RANDOM
from .folder import INIT, INPUTS
from .inspect import Inspection
from .plan import LOOKS, Plan

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
FINETUNING_RANGES = dict(
    full='saturation=(0.6, 1.4), hue=(-0.1, 0.1)',
    brightness='saturation=(1.0, 1.0), hue=(0.0, 0.0)',
)


def render(inspection: Inspection, plan: Plan) -> str:
    """Return the text of the config of a pre-training, without any name or path of the user.

    Args:
        inspection: The videos.
        plan: All settings, including ``steps``.
    """
    size, recipe, warmup_steps = plan['size'], plan.recipe, round(WARMUP_SHARE * plan['steps'])
    window, segment, colours = '', plan.settings['segment_seconds'], plan.settings['colours']
    if segment.value:
        window = comment(
            f'Long files: {segment.value} seconds per sample ({segment.reason}), as in '
            'lists/train_windows.txt; another length needs --segment-seconds and a new folder'
        )
        window += f"\nwindow = dict(type='VideoWindow', window_seconds={segment.value})\n"
    start = f", init_cfg=dict(type='Pretrained', checkpoint=folder + '{INIT}', prefix='backbone.')"
    transforms = [
        f'dict(_base_.crop{CROPS[recipe.crop if plan["zoom"] else "little"]})',
        'resize',
        *(['_base_.flip'] if plan['flip'] else []),
        *COLOURS[colours.value],
        'blur',
    ]
    watched = f'{len(plan.watched)} held-out videos for evaluation'
    if plan.watched is plan.train:
        watched = 'the training videos, because there are too few to hold some out'
    return _fill_template(
        'config.template',
        inspection,
        plan,
        hours=sum(video.seconds for video in inspection.videos) / 3600,
        start='' if plan['init'] == RANDOM else start,
        light=(round(1 - recipe.light, 2), round(1 + recipe.light, 2)),
        sigma=max(0.5, 2.0 * size / 224),
        kernel=max(3, size // 10 | 1),
        transforms=', '.join(transforms),
        window=window,
        window_name='window, ' if window else '',
        train='train_windows' if window else 'train',
        watched_why=comment(f'Watched: {watched}'),
        looks=max(1, plan['steps'] // LOOKS),
        # A warm-up of one step would never reach the full learning rate
        warmup=f'dict(_base_.warmup, end={warmup_steps}), ' if warmup_steps > 1 else '',
    )


def render_finetuning(inspection: Inspection, plan: Plan) -> str:
    """Return the text of the config of a fine-tuning; see :func:`render`.

    Args:
        inspection: The videos.
        plan: All settings, including ``steps``, ``classes`` and ``frozen``.
    """
    area, warmup_steps = (0.3 if plan['zoom'] else 0.8, 1.0), round(WARMUP_SHARE * plan['steps'])
    transforms = [
        f"dict(type='RandomResizedCrop', area_range={area}, aspect_ratio_range=(0.75, 1.33))",
        "dict(type='Resize', scale=(size, size), keep_ratio=False)",
        *(["dict(type='Flip', flip_ratio=0.5)"] if plan['flip'] else []),
    ]
    if plan['colours'] != 'none':
        ranges = f'brightness=(0.6, 1.4), contrast=(0.6, 1.4), {FINETUNING_RANGES[plan["colours"]]}'
        transforms.append(f"dict(type='ClipColorJitter', {ranges}, prob=0.8)")
    warmup = f"dict(type='LinearLR', start_factor=0.01, by_epoch=False, end={warmup_steps}),\n    "
    return _fill_template(
        'finetune.template',
        inspection,
        plan,
        init=INIT,
        frozen='frozen_stages=4, norm_eval=True, ' if plan['frozen'] else '',
        dropout=0.0 if plan['frozen'] else 0.5,
        transforms=',\n    '.join(transforms),
        num_clips=NUM_CLIPS,
        warmup=warmup if warmup_steps > 1 else '',
    )


def _fill_template(name: str, inspection: Inspection, plan: Plan, **fields: Any) -> str:
    """Fill a template with the fields that are common to both and others."""
    reasons = {}
    for setting, x in plan.settings.items():
        title = setting.replace('_', ' ').capitalize()
        reasons[f'{setting}_why'] = comment(f'{title}: {x.value} ({x.reason})')
    steps, cache = plan['steps'], None
    if plan['cache']:
        cache = f"dict(folder=folder + 'frames', short_side={plan['cache']})"
    shared = dict(
        plan=plan,
        inputs=INPUTS,
        videos=len(inspection.videos),
        cache=cache,
        log=max(1, min(MAX_LOG_INTERVAL, steps // 20)),
        checkpoints=max(1, steps // CHECKPOINTS),
        total=plan['batch_size'] * get_world_size(),
        wrapper='OptimWrapper' if plan['precision'] == 'float32' else 'AutocastOptimWrapper',
    )
    template = Path(__file__).with_name(name).read_text(encoding='utf-8')
    return template.format(**reasons | shared | fields)


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
