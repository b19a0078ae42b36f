"""Write the config of a training and the lists that it reads."""

import json
from pathlib import Path
from textwrap import wrap

from ..io import replacing
from .inspect import Inspection, Video
from .plan import LOOKS, Network, Options, Plan, Setting, number_of_windows

CROPS = dict(
    full='',
    gentle=', area_range=(0.4, 1.0), aspect_ratio_range=(0.75, 1.33)',
    little=', area_range=(0.8, 1.0)',
)
WARMUP_SHARE = 0.1
CHECKPOINTS = 10  # written during a training
MAX_LOG_INTERVAL = 10
LINE = 100
INIT = 'init.pth'  # a copy of the weights of --init
INPUTS = 'inputs.json'  # what comes from outside; mmengine replaces some texts in a config
JITTER = 'dict(_base_.{}, brightness=light, contrast=light)'
COLOURS = dict(
    full=[JITTER.format('jitter'), '_base_.grayscale'],
    brightness=[JITTER.format('light_jitter')],
    none=[],
)

TEMPLATE = Path(__file__).with_name('config.template')


def write_inputs(folder: Path, root: Path, start: Network | None) -> None:
    """Write what the config takes from outside: paths and the architecture of ``--init``.

    mmengine replaces ``{{$NAME:text}}`` in the text of a config before Python parses it, so that
    such a name of a folder could be executed; a data file is only read.

    Args:
        folder: Output folder.
        root: The common folder of all videos.
        start: The encoder of ``--init``.
    """
    inputs: dict[str, dict] = dict(videos=dict(video=str(root)))
    if start is not None:
        inputs |= dict(backbone=start.backbone, data_preprocessor=start.preprocessor)
    with replacing(folder / INPUTS) as part:
        part.write_text(json.dumps(inputs, indent=2) + '\n', encoding='utf-8')


def render(inspection: Inspection, plan: Plan, options: Options) -> str:
    """Return the text of the config, without any name or path of the user.

    Args:
        inspection: The videos.
        plan: All settings, including ``steps``.
        options: The options of the user; only the augmentation, ``init`` and ``seed`` are used.
    """
    settings, steps, size, workers = plan.settings, plan['steps'], plan['size'], plan['workers']
    warmup_steps = round(WARMUP_SHARE * steps)
    window = ''
    if plan['window_frames']:
        window = f"window = dict(type='VideoWindow', window_frames={plan['window_frames']})\n"
        window = f'{why("Long files", settings["window_frames"])}\n{window}'
    if options.init is None:
        backbone = f'dict({", ".join(f"{k}={v!r}" for k, v in plan.network.backbone.items())})'
    else:
        init = f"dict(type='Pretrained', checkpoint=folder + '{INIT}', prefix='backbone.')"
        backbone = f"dict(inputs['backbone'], init_cfg={init})"
    counted = [settings['fps']] if plan['fps'] else []
    recipe, colours = plan.recipe, settings['colours']
    crop = recipe.crop if options.zoom else 'little'
    off = [f'no {name}, ' for name in ('flip', 'zoom') if not getattr(options, name)]
    augment = f'{"".join(off)}colours: {colours.value} ({colours.reason})'
    watched = f'{len(plan.watched)} held-out videos for evaluation'
    if not plan.held_out:
        watched = 'the training videos, because there are too few to hold some out'
    return TEMPLATE.read_text(encoding='utf-8').format(
        videos=len(inspection.videos),
        hours=sum(video.seconds for video in inspection.videos) / 3600,
        inputs=INPUTS,
        encoder_why=why('Encoder', settings['encoder']),
        backbone=backbone,
        channels=plan.network.channels,
        hidden=recipe.hidden_layers,
        preprocessor=", data_preprocessor=inputs['data_preprocessor']" if options.init else '',
        clip_why=why('Clips', settings['clip_len'], settings['frame_interval'], *counted),
        clip_len=plan['clip_len'],
        frame_interval=plan['frame_interval'],
        fps=plan['fps'],
        size_why=why('Frames', settings['size']),
        size=size,
        augment_why=comment(f'Augmentation {recipe.kind}: {augment}'),
        light=(round(1 - recipe.light, 2), round(1 + recipe.light, 2)),
        sigma=max(0.5, 2.0 * size / 224),
        kernel=max(3, size // 10 | 1),
        transforms=', '.join(
            [
                f'dict(_base_.crop{CROPS[crop]})',
                'resize',
                *(['_base_.flip'] if options.flip else []),
                *COLOURS[colours.value],
                'blur',
            ]
        ),
        window=window,
        window_name='window, ' if window else '',
        batch_why=why('Batch', settings['batch_size']),
        workers_why=why('Workers', settings['workers']),
        batch_size=plan['batch_size'],
        workers=workers,
        persistent=workers > 0,
        train='train_windows' if window else 'train',
        watched_why=comment(f'Watched: {watched}'),
        looks=max(1, steps // LOOKS),
        length_why=why('Steps', settings['steps']),
        steps=steps,
        # A warm-up of one step would never reach the full learning rate
        warmup=f'dict(_base_.warmup, end={warmup_steps}), ' if warmup_steps > 1 else '',
        lr_why=why('Learning rate', settings['lr']),
        precision="type='AutocastOptimWrapper', " if plan['precision'] == 'bfloat16' else '',
        lr=plan['lr'],
        log=max(1, min(MAX_LOG_INTERVAL, steps // 20)),
        checkpoints=max(1, steps // CHECKPOINTS),
        seed=options.seed,
    )


def why(title: str, *settings: Setting) -> str:
    """Return a comment with settings and their reasons."""
    return comment(f'{title}: ' + '; '.join(f'{s.value} ({s.reason})' for s in settings))


def comment(text: str) -> str:
    """Return text as a comment of a config."""
    return '\n'.join(wrap(text, LINE, initial_indent='# ', subsequent_indent='# '))


def write_lists(inspection: Inspection, plan: Plan, folder: Path) -> None:
    """Write ``train.txt``, ``watched.txt``, ``all.txt`` and ``classes.txt``.

    If long files count as several samples, ``train_windows.txt`` is also written, with one line
    ``path window`` per sample. The labels of the other lists are the folders' indices, or -1.

    Args:
        inspection: The videos.
        plan: Training and watched videos, and ``window_frames``.
        folder: Output folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    labels = {name: label for label, name in enumerate(inspection.classes)}

    def labelled(videos: list[Video]) -> list[str]:
        return [f'{video.name} {labels.get(video.folder, -1)}' for video in videos]

    lists = dict(
        train=labelled(plan.train),
        watched=labelled(plan.watched),
        all=labelled(inspection.videos),
        classes=inspection.classes,
    )
    if (window_frames := plan['window_frames']) is not None:
        lists['train_windows'] = [
            f'{video.name} {window}'
            for video in plan.train
            for window in range(number_of_windows(video, window_frames))
        ]
    for name, lines in lists.items():
        text = ''.join(f'{line}\n' for line in lines)
        (folder / f'{name}.txt').write_text(text, encoding='utf-8')
