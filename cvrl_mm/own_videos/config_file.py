"""The config of a training on a user's own videos."""

from pathlib import Path
from textwrap import wrap

from .inspection import Inspection, Video
from .settings import LOOKS, Options, Plan, Setting, number_of_windows

ZOOM_AREA = (0.3, 1.0)  # of Algorithm 1
NO_ZOOM_AREA = (0.8, 1.0)
WARMUP_SHARE = 0.1
CHECKPOINTS = 10  # written during a training
MAX_LOG_INTERVAL = 10
LINE = 100
INIT = 'init.pth'  # a copy of the weights of --init

TEMPLATE = """\
# Written by `cvrl pretrain` for {videos} videos ({hours:.2f} hours); the comments say why.
# Edit it and give the same command again, or train with it by tools/train.py.
_base_ = 'cvrl_mm::_base_/own_videos.py'
{encoder_why}
model = dict(
    backbone={backbone},
    cls_head=dict(in_channels={channels}, hidden_channels={channels}),{extra}
)
{clip_why}
clip = dict(clip_len={clip_len}, frame_interval={frame_interval})
{size_why}
size = {size}
{augment_why}
crop = dict(type='RandomResizedCrop', area_range={area}, aspect_ratio_range=(0.5, 2.0))
resize = dict(type='Resize', scale=(size, size), keep_ratio=False)
blur = dict(type='ClipGaussianBlur', sigma=(0.1, {sigma:.1f}), kernel_size={kernel}, prob=0.5)
augment = dict(
    type='ConsistentAugment',
    transforms=[{transforms}],
)
{window}sample = dict(type='TemporalIntervalSample', **clip)
train_pipeline = [_base_.open_video, {window_name}sample, _base_.decode, augment, *_base_.pack]
{batch_why}
{workers_why}
videos = dict(video={root!r})
train_dataloader = dict(
    batch_size={batch_size},
    num_workers={workers},{persistent}
    dataset=dict(
        ann_file={train!r},
        data_prefix=videos,
        pipeline=train_pipeline,
    ),
)
{watched_why}
two_clips = dict(type='EvenClipSample', num_clips=2, **clip)
short_side = dict(type='Resize', scale=(-1, size))
middle = dict(type='CenterCrop', crop_size=size)
view = [_base_.open_video, two_clips, _base_.decode, short_side, middle, *_base_.pack]
watched = dict(
    batch_size=8,
    num_workers={workers},
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='VideoListDataset',
        ann_file={watched!r},
        data_prefix=videos,
        pipeline=view,
        test_mode=True,
    ),
)
watch = dict(type='RepresentationHook', dataloader=watched, interval={looks}, by_epoch=False)
custom_hooks = [dict(type='NegativesCheckHook'), dict(type='RegularizationLossHook'), watch]
{length_why}
train_cfg = dict(max_iters={steps})
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, end={warmup}),
    dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.0),
]
{lr_why}
optim_wrapper = dict({precision}optimizer=dict(lr={lr:g}))
default_hooks = dict(logger=dict(interval={log}), checkpoint=dict(interval={checkpoints}))
randomness = dict(seed={seed})
work_dir = {work_dir!r}
"""


def render(inspection: Inspection, plan: Plan, options: Options, out: Path) -> str:
    """Write the text of the config.

    Args:
        inspection: The videos.
        plan: All settings, ``steps`` among them.
        options: What the user has set; the switches of the augmentation and the seed count.
        out: Folder of the lists and the training.
    """
    backbone = dict(plan.network.backbone)
    if options.init is not None:
        init = str(out / INIT)
        backbone['init_cfg'] = dict(type='Pretrained', checkpoint=init, prefix='backbone.')
    extra = ''
    if plan.network.preprocessor:
        extra = f'\n    data_preprocessor={repr_dict(plan.network.preprocessor)},'
    size, steps, chunk = plan['size'], plan['steps'], plan['chunk_size']
    window_frames = plan['window_frames']
    window = f"window = dict(type='VideoWindow', window_frames={window_frames})\n"
    colour = ['_base_.jitter', '_base_.grayscale'] if options.colour else []
    steps_of_clip = ['crop', 'resize', *(['_base_.flip'] if options.flip else []), *colour, 'blur']
    held_out = (
        f'{len(plan.watched)} videos are held out to measure on'
        if plan.held_out
        else 'too few videos to hold some out: measured on those it is trained on'
    )
    settings = plan.settings
    return TEMPLATE.format(
        videos=len(inspection.videos),
        hours=inspection.seconds.sum() / 3600,
        encoder_why=_why('Encoder', settings['encoder']),
        backbone=repr_dict(backbone),
        channels=plan.network.channels,
        extra=extra + ('' if chunk is None else f'\n    chunk_size={chunk},'),
        clip_why=_why('Clips', settings['clip_len'], settings['frame_interval']),
        clip_len=plan['clip_len'],
        frame_interval=plan['frame_interval'],
        size_why=_why('Frames', settings['size']),
        size=size,
        augment_why=_comment(_describe_switches(options)),
        area=ZOOM_AREA if options.zoom else NO_ZOOM_AREA,
        sigma=max(0.5, 2.0 * size / 224),
        kernel=max(3, size // 10 | 1),
        transforms=', '.join(steps_of_clip),
        window=_why('Long files', settings['window_frames']) + '\n' + window
        if window_frames
        else '',
        window_name='window, ' if window_frames else '',
        batch_why=_why('Batch', settings['batch_size']),
        workers_why=_why('Workers', settings['workers']),
        root=str(inspection.root),
        batch_size=plan['batch_size'],
        workers=plan['workers'],
        persistent='' if plan['workers'] else '\n    persistent_workers=False,',
        train=str(out / 'lists/train.txt'),
        watched_why=_comment(f'Watched: {held_out}'),
        watched=str(out / 'lists/watched.txt'),
        looks=max(1, steps // LOOKS),
        length_why=_why('Steps', settings['steps']),
        steps=steps,
        warmup=max(1, round(WARMUP_SHARE * steps)),
        lr_why=_why('Learning rate', settings['lr']),
        precision="type='AutocastOptimWrapper', " if settings['precision'].value else '',
        lr=plan['lr'],
        log=max(1, min(MAX_LOG_INTERVAL, steps // 20)),
        checkpoints=max(1, steps // CHECKPOINTS),
        seed=options.seed,
        work_dir=str(out / 'training'),
    )


def write_lists(inspection: Inspection, plan: Plan, folder: Path) -> None:
    """Write the lists of the videos to train on and to watch.

    Args:
        inspection: The videos.
        plan: Which of them are held out.
        folder: Where to write ``train.txt``, ``watched.txt`` and ``all.txt``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    window_frames = plan['window_frames'] or max(v.probe.frames for v in plan.train)
    windows = [
        f'{video.name} {window}'
        for video in plan.train
        for window in range(number_of_windows(video.probe.frames, window_frames))
    ]
    labels = {name: label for label, name in enumerate(inspection.classes)}

    def labelled(videos: list[Video]) -> list[str]:
        return [f'{video.name} {labels.get(video.folder, -1)}' for video in videos]

    lists = dict(train=windows, watched=labelled(plan.watched), all=labelled(inspection.videos))
    for name, lines in lists.items():
        (folder / f'{name}.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    (folder / 'classes.txt').write_text(''.join(f'{c}\n' for c in inspection.classes))


def repr_dict(values: dict) -> str:
    """Write a dict as a config has it."""
    items = (
        f'{key}={repr_dict(value) if isinstance(value, dict) else repr(value)}'
        for key, value in values.items()
    )
    return f'dict({", ".join(items)})'


def _describe_switches(options: Options) -> str:
    off = [name for name in ('flip', 'colour', 'zoom') if not getattr(options, name)]
    return f'Augmentation of Algorithm 1{", without " + ", ".join(off) if off else ""}'


def _why(title: str, *settings: Setting) -> str:
    return _comment(f'{title}: ' + '; '.join(f'{s.value} ({s.reason})' for s in settings))


def _comment(text: str) -> str:
    return '\n'.join(wrap(text, LINE, initial_indent='# ', subsequent_indent='# '))
