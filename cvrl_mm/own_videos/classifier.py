"""Fine-tune an encoder on labelled videos (``cvrl finetune``)."""

import shlex
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.device import get_device
from rich.console import Console

from ..datasets.lists import read_video_list
from ..encoder.description import ClipInput
from ..encoder.encoder import Encoder, load_encoder
from ..encoder.files import CLASSIFIER
from ..evaluation.labelled import LabelledVideo, hold_out_groups, lost_classes, read_labelled, split
from ..io import read_json
from ..options import NONE, RANDOM, FinetuneOptions, Options
from ..progress import progress
from ..text import printable
from .config import render_finetuning
from .folder import COMMAND, INIT, name_folder, replace_lists, video_root, write_report
from .groups import find_groups
from .inspect import Inspection, Video
from .plan import GIVEN, Machine, Network, Plan, Setting, choose, too_short
from .predict import load_classifier, predict, save_classifier
from .train import Task, copy_start

# Chosen together with the encoder "tiny"; others are untried
LR, FROZEN_LR, BATCH_SIZE = 3e-3, 1e-2, 16
TRAIN_SHARE = 0.7
MOST_PATTERNS = 3


class FineTuning(Task):
    """The task of ``cvrl finetune``."""

    options = FinetuneOptions
    usage = 'classifier = cvrl_mm.load_classifier({!r})'
    epochs, min_steps = 50, 300
    render = staticmethod(render_finetuning)

    def videos(self, sources: Sequence[str], options: FinetuneOptions) -> Sequence[str]:
        """Read the labels, and return the paths of the videos."""
        if options.groups is not None and options.val is not None:
            raise ValueError('--val and --groups both choose the held-out videos; give one.')
        named = [] if options.val in (None, NONE) else [options.val]
        train, held = read_labelled(sources), read_labelled(named)
        if both := train.keys() & held.keys():
            raise ValueError(f'{min(both)} is a training video and in {options.val}.')
        self.labels = {video.path: video.label for video in (train | held).values()}
        self.held = {video.path for video in held.values()}
        if lacking := [path for path, label in self.labels.items() if not label]:
            raise ValueError(f'{printable(lacking[0])} has no label.')
        return [*self.labels]

    def choose(
        self,
        found: Inspection,
        options: FinetuneOptions,
        machine: Machine,
        folder: Path,
        start: Network | None,
    ) -> Plan:
        """Split the videos, choose the settings, and write the lists."""
        labels = {v.name: self.labels[str(found.root / v.name)] for v in found.videos}
        for line in lost_classes(self.labels.values(), labels.values()):
            warnings.warn(line, stacklevel=2)
        held = {v.name for v in found.videos if str(found.root / v.name) in self.held}
        if options.groups is not None:
            held = hold_out_groups([*labels], [*labels.values()], options.groups)
        elif not options.val:
            held = hold_out(labels, options.seed)
        train = [video for video in found.videos if video.name not in held]
        val = [video for video in found.videos if video.name in held]
        labelled = [LabelledVideo('', v.name, labels[v.name]) for v in (*train, *val)]
        split(labelled, len(train))  # checks the classes
        if not val and options.val != NONE:
            raise ValueError(f'None of the videos of {options.val} can be used.')

        whole = replace(options, segment_seconds=1e7)
        if start is None:
            start = copy_start(_untrained(found, whole, machine, (train, val)), folder)
        clips = load_encoder(folder / INIT).clip_input
        defaults = {
            name: Setting(getattr(clips, name), "the encoder's")
            for name in ('clip_len', 'frame_interval', 'fps', 'size')
        }
        batch = max(2, min(BATCH_SIZE, len(train) // 4 // machine.ranks))
        reason = f'at most {BATCH_SIZE} and a quarter of the {len(train)} videos in all'
        defaults['batch_size'] = Setting(batch, reason)
        lr, layers = (FROZEN_LR, 'the head') if options.frozen else (LR, 'all layers')
        defaults['lr'] = Setting(lr, f'for {layers}, with AdamW')
        plan = choose(found, whole, machine, start, (train, val), defaults)
        count = Counter(labels[video.name] for video in train)
        classes = sorted(count, key=int if all(map(str.isdecimal, count)) else None)
        listed = ', '.join(f'{name} {count[name]}' for name in classes)
        trained = 'all layers are trained; the linear layer alone: --frozen'
        plan.settings['frozen'] = Setting(options.frozen, GIVEN if options.frozen else trained)
        plan.settings['classes'] = Setting(len(classes), f'training videos: {listed:.200}')
        lists = {
            name: [f'{v.name} {classes.index(labels[v.name])}' for v in videos]
            for name, videos in (('train', train), ('val', val))
        }
        replace_lists(folder, lists | dict(classes=classes))
        return plan

    def write_results(self, folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
        """Write the classifier, and its predictions of the held-out videos."""
        from .page import write_classifier_page  # with matplotlib and scikit-learn

        command = read_json(folder / COMMAND)
        save_classifier(checkpoint, folder / CLASSIFIER)
        classifier, root = load_classifier(folder).to(get_device()), video_root(folder)
        fitted = read_video_list(str(folder / 'lists/train.txt'))
        videos = [] if command['val'] == NONE else read_video_list(str(folder / 'lists/val.txt'))
        paths, found = [str(root / name) for name, _ in videos], []
        workers = cfg.test_dataloader.num_workers
        with progress('Classifying the held-out videos', console) as on_progress:
            predictions = predict(classifier, paths, num_workers=workers)
            for prediction, (_, label) in zip(predictions, videos, strict=True):
                found.append((prediction, label))
                on_progress(len(found), len(paths))
        steps = cfg.train_cfg.max_iters
        about = [
            f'Trained on {len(fitted)} videos: {steps:,} steps of '
            f'{cfg.train_dataloader.batch_size} videos per device.',
            *too_short(steps, self.min_steps, f'cvrl finetune --out OUT --steps {self.min_steps}.'),
        ]
        if (pattern := command['groups']) is not None:
            about.append(
                f'The held-out videos are of other groups than the rest, by the pattern {pattern}.'
            )
        elif command['val'] is None:
            about.append(
                'The held-out videos were drawn at random: if they share persons or recordings '
                'with the others, the accuracy is too high for new ones; --val names held-out '
                'videos, and --groups holds out whole groups.'
            )
            names, classes = zip(*fitted, *videos, strict=True)
            if patterns := [*map(shlex.quote, find_groups(names, classes))][:MOST_PATTERNS]:
                listed = ' or '.join(patterns)
                about.append(f'Parts of the names may be persons or recordings: --groups {listed}.')
        notes = write_classifier_page(folder, ' '.join(about), classifier.classes, found)
        write_report(folder, notes)
        console.print(*(name_folder(folder, note) for note in notes), sep='\n', markup=False)


def _untrained(
    found: Inspection, options: Options, machine: Machine, split: tuple[list[Video], list[Video]]
) -> Encoder:
    """Return an encoder with random weights, as ``cvrl pretrain`` would train it on the videos."""
    plan = choose(found, replace(options, init=RANDOM), machine, None, split)
    backbone = dict(type='R3DSlow', **plan.network.backbone)
    torch.manual_seed(options.seed)
    network = MODELS.build(backbone)
    network.init_weights()
    clips = {name: plan[name] for name in ('clip_len', 'frame_interval', 'size', 'fps')}
    return Encoder(network, ClipInput(**clips), dict(backbone=backbone)).eval()


def hold_out(labels: Mapping[str, str], seed: int) -> set[str]:
    """Return 30 % of the videos of each class at random, given the classes by video."""
    names, by_class = [*labels], defaultdict(list)
    for i in np.random.default_rng(seed).permutation(len(names)):
        by_class[labels[names[i]]].append(names[i])
    return {x for names in by_class.values() for x in names[round(TRAIN_SHARE * len(names)) :]}
