"""Write the config of a training on a user's own videos."""

from textwrap import wrap

from .inspection import Inspection
from .lists import TRAIN_WINDOWS
from .options import Options
from .settings import LOOKS, Plan, Setting

NO_ZOOM_AREA = (0.8, 1.0)
WARMUP_SHARE = 0.1
CHECKPOINTS = 10  # written during a training
MAX_LOG_INTERVAL = 10
LINE = 100
INIT = 'init.pth'  # a copy of the weights of --init
COLOURS = dict(full=['_base_.jitter', '_base_.grayscale'], brightness=['_base_.light'], none=[])

TEMPLATE = """\
# Written by `cvrl pretrain` for {videos} videos ({hours:.2f} hours). The comments give the reasons.
# To change a setting, edit this file and run the same command again, or run tools/train.py with it.
_base_ = 'cvrl_mm::_base_/own_videos.py'
folder = r'''{{{{ fileDirname }}}}/'''  # of this file, which may be moved with all others
{encoder_why}
model = {model}
{clip_why}
clip = dict(clip_len={clip_len}, frame_interval={frame_interval})
{size_why}
size = {size}
{augment_why}
resize = dict(_base_.resize, scale=(size, size))
blur = dict(_base_.half_blur, sigma=(0.1, {sigma:.1f}), kernel_size={kernel})
augment = dict(_base_.augment, transforms=[{transforms}])
{window}sample = dict(_base_.sample, **clip)
train_pipeline = [_base_.open_video, {window_name}sample, _base_.decode, augment, *_base_.pack]
{batch_why}
{workers_why}
videos = dict(video={root!r})
train_dataloader = dict(
    batch_size={batch_size},
    num_workers={workers},{persistent}
    dataset=dict(ann_file=folder + {train!r}, data_prefix=videos, pipeline=train_pipeline),
)
{watched_why}
middle = [dict(type='Resize', scale=(-1, size)), dict(type='CenterCrop', crop_size=size)]
view = [_base_.open_video, dict(_base_.two_clips, **clip), _base_.decode, *middle, *_base_.pack]
watched = dict(
    _base_.watched_dataset,
    ann_file=folder + {watched!r},
    data_prefix=videos,
    pipeline=view,
)
watched_dataloader = dict(_base_.watched_loader, num_workers={workers}, dataset=watched)
watch = dict(_base_.watch, dataloader=watched_dataloader, interval={looks})
custom_hooks = [*_base_.custom_hooks, watch]
{length_why}
train_cfg = dict(max_iters={steps})
param_scheduler = [{warmup}_base_.cosine]
{lr_why}
optim_wrapper = dict({precision}optimizer=dict(lr={lr:g}))
default_hooks = dict(logger=dict(interval={log}), checkpoint=dict(interval={checkpoints}))
randomness = dict(seed={seed})
work_dir = folder + 'training'
"""


def render(inspection: Inspection, plan: Plan, options: Options) -> str:
    """Return the text of the config. All paths but that of the videos depend on its folder.

    Args:
        inspection: The videos.
        plan: All settings, including ``steps`` and ``memory``.
        options: The options of the user; only the augmentation, ``init`` and ``seed`` are used.
    """
    settings = plan.settings
    steps, size, workers = plan['steps'], plan['size'], plan['workers']
    warmup_steps = round(WARMUP_SHARE * steps)
    window_frames = plan['window_frames']
    window = ''
    if window_frames:
        window = (
            _why('Long files', settings['window_frames'])
            + f"\nwindow = dict(type='VideoWindow', window_frames={window_frames})\n"
        )
    return TEMPLATE.format(
        videos=len(inspection.videos),
        hours=inspection.seconds.sum() / 3600,
        encoder_why=_why('Encoder', settings['encoder'], settings['memory']),
        model=repr_dict(_model(plan, options)),
        clip_why=_why('Clips', settings['clip_len'], settings['frame_interval']),
        clip_len=plan['clip_len'],
        frame_interval=plan['frame_interval'],
        size_why=_why('Frames', settings['size']),
        size=size,
        augment_why=_describe_augmentation(plan, options),
        sigma=max(0.5, 2.0 * size / 224),
        kernel=max(3, size // 10 | 1),
        transforms=', '.join(_transforms(plan, options)),
        window=window,
        window_name='window, ' if window_frames else '',
        batch_why=_why('Batch', settings['batch_size']),
        workers_why=_why('Workers', settings['workers']),
        root=str(inspection.root),
        batch_size=plan['batch_size'],
        workers=workers,
        persistent='' if workers else '\n    persistent_workers=False,',
        train=f'lists/{TRAIN_WINDOWS if window_frames else "train"}.txt',
        watched_why=_describe_watched(plan),
        watched='lists/watched.txt',
        looks=max(1, steps // LOOKS),
        length_why=_why('Steps', settings['steps']),
        steps=steps,
        # A warm-up of one step would never reach the full learning rate
        warmup=f'dict(_base_.warmup, end={warmup_steps}), ' if warmup_steps > 1 else '',
        lr_why=_why('Learning rate', settings['lr']),
        precision="type='AutocastOptimWrapper', " if plan['precision'] == 'bfloat16' else '',
        lr=plan['lr'],
        log=max(1, min(MAX_LOG_INTERVAL, steps // 20)),
        checkpoints=max(1, steps // CHECKPOINTS),
        seed=options.seed,
    )


class _Expression(str):
    """A value that is written without quotes."""

    __repr__ = str.__str__


def repr_dict(values: dict) -> str:
    """Return the text of a dict in the style of configs."""
    items = (
        f'{key}={repr_dict(value) if isinstance(value, dict) else repr(value)}'
        for key, value in values.items()
    )
    return f'dict({", ".join(items)})'


def _model(plan: Plan, options: Options) -> dict:
    """Return the model settings of the config."""
    backbone = dict(plan.network.backbone)
    if options.init is not None:
        init = _Expression(f'folder + {INIT!r}')
        backbone['init_cfg'] = dict(type='Pretrained', checkpoint=init, prefix='backbone.')
    model = dict(backbone=backbone, cls_head=dict(hidden_channels=plan.network.channels))
    if plan.network.preprocessor:
        model['data_preprocessor'] = plan.network.preprocessor
    memory = plan['memory']
    backbone.update(memory.get('backbone', {}))
    model.update({name: value for name, value in memory.items() if name != 'backbone'})
    return model


def _transforms(plan: Plan, options: Options) -> list[str]:
    """Return the augmentation steps as expressions of the config."""
    crop = '_base_.crop' if options.zoom else f'dict(_base_.crop, area_range={NO_ZOOM_AREA})'
    flip = ['_base_.flip'] if options.flip else []
    return [crop, 'resize', *flip, *COLOURS[plan['colour']], 'blur']


def _describe_augmentation(plan: Plan, options: Options) -> str:
    off = [f'no {name}' for name in ('flip', 'zoom') if not getattr(options, name)]
    colour = plan.settings['colour']
    parts = ', '.join([*off, f'colour {colour.value}'])
    return _comment(f'Augmentation: {parts} ({colour.reason})')


def _describe_watched(plan: Plan) -> str:
    if plan.held_out:
        return _comment(f'Watched: {len(plan.watched)} held-out videos for evaluation')
    return _comment('Watched: the training videos, because there are too few to hold some out')


def _why(title: str, *settings: Setting) -> str:
    """Return a comment with settings and their reasons, without settings that have no value."""
    used = [s for s in settings if s.value not in (None, {})]
    return _comment(f'{title}: ' + '; '.join(f'{s.value} ({s.reason})' for s in used))


def _comment(text: str) -> str:
    return '\n'.join(wrap(text, LINE, initial_indent='# ', subsequent_indent='# '))
