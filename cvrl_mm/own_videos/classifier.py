"""Fine-tune an encoder on labelled videos (``cvrl finetune``)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.device import get_device
from rich.console import Console

from ..convert.description import ClipInput
from ..convert.files import CLASSIFIER
from ..datasets.lists import read_video_list
from ..evaluation.encoder import UNTRAINED, Encoder, load_encoder
from ..evaluation.labelled import read_labelled
from ..io import printable, progress, read_json, usable_cores
from .config import WARMUP_SHARE, comment, shared_fields
from .folder import COMMAND, INIT, replace_lists, video_root, write_report
from .inspect import Inspection, Video, inspect
from .plan import Machine, Network, Options, Plan, Setting, choose, counted, too_short
from .predict import NUM_CLIPS, load_classifier, predict, save_classifier
from .train import Task

TEMPLATE = Path(__file__).with_name('finetune.template')
# Chosen together with the encoder "tiny"; others are untried
LR, FROZEN_LR, BATCH_SIZE = 3e-3, 1e-2, 16
TRAIN_SHARE = 0.7
AT_RANDOM = (
    ' The held-out videos were drawn at random: if they share persons or recordings with the '
    'others, the accuracy is too high for new ones; --val names held-out videos.'
)
JITTER = "dict(type='ClipColorJitter', brightness=(0.6, 1.4), contrast=(0.6, 1.4), {}prob=0.8)"
COLOURS = dict(
    full=[JITTER.format('saturation=(0.6, 1.4), hue=(-0.1, 0.1), ')],
    brightness=[JITTER.format('saturation=(1.0, 1.0), hue=(0.0, 0.0), ')],
    none=[],
)


@dataclass(frozen=True)
class FinetuneOptions(Options):
    """Options of a fine-tuning: the same as of pre-training, with ``init``, the encoder.

    Attributes:
        val: Held-out videos, with labels as the others: a folder or a list. Default: 30 % of the
            videos of each class.
        frozen: Train only the linear layer; the encoder does not change.
    """

    val: str | None = None
    frozen: bool = False


class FineTuning(Task):
    """The task of ``cvrl finetune``."""

    options = FinetuneOptions
    usage = 'classifier = cvrl_mm.load_classifier({!r})'
    folders_are_classes = False  # the labels may come from a list
    random = UNTRAINED
    epochs, min_steps = 50, 300

    def inspect(
        self,
        sources: Sequence[str],
        options: FinetuneOptions,
        on_progress: Callable[[int, int], None],
    ) -> Inspection:
        """Read the labels, and open all videos."""
        given = read_labelled(sources), read_labelled([options.val] if options.val else [])
        if both := [video.name for path, video in given[0].items() if path in given[1]]:
            raise ValueError(
                f'{len(both)} videos are both for training and in {options.val}, such as '
                f'{both[0]}; held-out videos must not be trained on.'
            )
        labels, self.held = ({x.path: x.label for x in videos.values()} for videos in given)
        self.labels = labels | self.held
        if lacking := [path for path, label in self.labels.items() if not label]:
            raise ValueError(f'{printable(lacking[0])} has no label.')
        return inspect([*self.labels], usable_cores(), on_progress)

    def choose(
        self,
        found: Inspection,
        options: FinetuneOptions,
        machine: Machine,
        folder: Path,
        start: Network | None,
    ) -> Plan:
        """Split the videos, choose the settings, and write the lists."""
        train, val = self._split(found, options)
        if start is None:
            start = _write_untrained(folder / INIT, found, options, machine, (train, val))
        clips = load_encoder(folder / INIT).clip_input
        given = {k: getattr(options, k) for k in ('clip_len', 'frame_interval', 'size')}
        filled = {k: getattr(clips, k) if v is None else v for k, v in given.items()}
        batch = options.batch_size or max(2, min(BATCH_SIZE, len(train) // 4 // machine.ranks))
        whole = replace(options, segment_seconds=1e7, batch_size=batch, **filled)
        plan = choose(found, whole, machine, start, (train, val))
        if options.batch_size is None:
            reason = f'at most {BATCH_SIZE} and a quarter of the {len(train)} videos in all'
            plan.settings['batch_size'] = Setting(batch, reason)
        for name, value in given.items():
            old = getattr(clips, name)
            reason = "the encoder's" if value in (None, old) else f'as given; {old} in the encoder'
            plan.settings[name] = Setting(filled[name], reason)
        plan.settings['fps'] = Setting(clips.fps, "the encoder's")
        if options.lr is None:
            lr, layers = (FROZEN_LR, 'the head') if options.frozen else (LR, 'all layers')
            plan.settings['lr'] = Setting(lr, f'for {layers}, with AdamW')
        reason = 'with its architecture'
        if options.init == self.random:
            reason = 'random weights, the architecture of cvrl pretrain'
        plan.settings['encoder'] = Setting('as given', reason)
        self.clips = clips
        count = Counter(self._label(found, video.name) for video in train)
        numbered = all(map(str.isdecimal, count))
        self.classes = sorted(count, key=int if numbered else None)
        listed = ', '.join(f'{name} {count[name]}' for name in self.classes)
        plan.settings['classes'] = Setting(len(count), f'training videos: {listed:.200}')
        lists = {
            name: [f'{v.name} {self.classes.index(self._label(found, v.name))}' for v in videos]
            for name, videos in (('train', train), ('val', val))
        }
        replace_lists(folder, lists | dict(classes=self.classes))
        return plan

    def _split(
        self, found: Inspection, options: FinetuneOptions
    ) -> tuple[list[Video], list[Video]]:
        """Return the training and the held-out videos, after a check of the classes."""
        labels = [self._label(found, video.name) for video in found.videos]
        held = {i for i, v in enumerate(found.videos) if str(found.root / v.name) in self.held}
        count = Counter(label for i, label in enumerate(labels) if i not in held)
        if len(count) < 2:
            raise ValueError(
                f'The training videos are of {len(count)} classes ({", ".join(count)}); a '
                'classifier needs two or more: one folder per class, or lines "path label".'
            )
        if unknown := sorted(set(labels) - count.keys()):
            raise ValueError(f'{options.val} has the label {unknown[0]}, the training videos not.')
        if not options.val:
            if min(count.values()) < 2:
                raise ValueError(
                    f'Only one video of the class {min(count, key=count.__getitem__)} can be used; '
                    'give two or more of each class, or held-out videos (--val).'
                )
            held = hold_out(np.array(labels), options.seed)
        if not held:
            raise ValueError(f'None of the videos of {options.val} can be used.')
        train = [video for i, video in enumerate(found.videos) if i not in held]
        return train, [found.videos[i] for i in sorted(held)]

    def _label(self, found: Inspection, name: str) -> str:
        return self.labels[str(found.root / name)]

    def render(self, found: Inspection, plan: Plan, options: FinetuneOptions) -> str:
        """Return the text of the config, without any name or path of the user."""
        steps = plan['steps']
        area = (0.3, 1.0) if options.zoom else (0.8, 1.0)
        transforms = [
            f"dict(type='RandomResizedCrop', area_range={area}, aspect_ratio_range=(0.75, 1.33))",
            "dict(type='Resize', scale=(size, size), keep_ratio=False)",
            *(["dict(type='Flip', flip_ratio=0.5)"] if options.flip else []),
            *COLOURS[plan['colours']],
        ]
        trained = 'the linear layer alone' if options.frozen else 'all layers'
        warmup = round(WARMUP_SHARE * steps)
        start = f"dict(type='LinearLR', start_factor=0.01, by_epoch=False, end={warmup}),\n    "
        fields = shared_fields(plan, options) | dict(
            encoder_why=comment(f'Encoder: given to the command; {trained} are trained')
        )
        return TEMPLATE.read_text(encoding='utf-8').format(
            **fields,
            videos=len(found.videos),
            num_classes=len(self.classes),
            init=INIT,
            frozen='frozen_stages=4, norm_eval=True, ' if options.frozen else '',
            dropout=0.0 if options.frozen else 0.5,
            mean=list(self.clips.mean),
            std=list(self.clips.std),
            augment_why=comment(f'Augmentation: colours: {plan.settings["colours"].reason}'),
            transforms=',\n    '.join(transforms),
            num_clips=NUM_CLIPS,
            warmup=start if warmup > 1 else '',
            wrapper='OptimWrapper' if plan['precision'] == 'float32' else 'AutocastOptimWrapper',
        )

    def write_results(self, folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
        """Write the classifier, and its predictions of the held-out videos."""
        from .page import write_classifier_page  # with matplotlib and scikit-learn

        save_classifier(checkpoint, folder / CLASSIFIER)
        classifier, root = load_classifier(folder).to(get_device()), video_root(folder)
        videos = read_video_list(str(folder / 'lists/val.txt'))
        paths, found = [str(root / name) for name, _ in videos], []
        workers = cfg.test_dataloader.num_workers
        with progress('Classifying the held-out videos', console) as on_progress:
            for prediction in predict(classifier, paths, num_workers=workers):
                found.append(prediction)
                on_progress(len(found), len(paths))
        steps = cfg.train_cfg.max_iters
        training = (
            f'Trained on {len(read_video_list(str(folder / "lists/train.txt")))} videos: '
            f'{counted(steps, "step")} of {cfg.train_dataloader.batch_size} videos per device. '
            f'{too_short(steps, self.min_steps)}'.rstrip()
        )
        if read_json(folder / COMMAND)['val'] is None:
            training += AT_RANDOM
        labels = [label for _, label in videos]
        notes = write_classifier_page(folder, training, root, classifier.classes, found, labels)
        write_report(folder, notes)
        console.print(*notes, sep='\n', markup=False)


def _write_untrained(
    path: Path,
    found: Inspection,
    options: FinetuneOptions,
    machine: Machine,
    split: tuple[list[Video], list[Video]],
) -> Network:
    """Write an encoder with random weights, as ``cvrl pretrain`` would train it on the videos."""
    plan = choose(found, replace(options, init=None, segment_seconds=1e7), machine, None, split)
    backbone = dict(type='R3DSlow', **plan.network.backbone)
    torch.manual_seed(options.seed)
    network = MODELS.build(backbone)
    network.init_weights()
    clips = {name: plan[name] for name in ('clip_len', 'frame_interval', 'size', 'fps')}
    Encoder(network, ClipInput(**clips), dict(backbone=backbone)).save(path)
    return replace(plan.network, backbone=backbone)


def hold_out(labels: np.ndarray, seed: int) -> set[int]:
    """Return the indices of 30 % of the videos of each class, and at least one."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    held: set[int] = set()
    ends = np.cumsum(np.unique(labels, return_counts=True)[1])
    for places in np.split(order[np.argsort(labels[order], kind='stable')], ends[:-1]):
        held |= set(places[round(TRAIN_SHARE * len(places)) :].tolist())
    return held
