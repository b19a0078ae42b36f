"""The output folder of a training: the command that it belongs to, its lists and its results."""

import json
import logging
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os.path import abspath, isfile
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import print_log
from torch import Tensor

from ..datasets.lists import gather_videos, read_lines, read_video_list
from ..encoder.encoder import Encoder, load_encoder
from ..encoder.files import NAMES
from ..encoder.recognizers import build_recognizer, calibrate
from ..evaluation.clips import VideoClips, batches_of
from ..evaluation.features import (
    Features,
    OnProgress,
    describe_lost,
    extract,
    join_features,
    no_progress,
    tracked,
)
from ..io import claim_folder, differing, made_from, read_json, replace_text
from ..options import NONE, Options
from .plan import Network

COMMAND = 'command.json'
LENGTH = 'hours', 'epochs', 'steps'  # options that may change after the first checkpoint
INPUTS = 'inputs.json'  # what comes from outside
INIT = 'init.pth'  # a copy of the weights of --init
REFUSED = ('{{', "'''", '\\')  # in the path of the output folder
FEATURES = 'features.npz'
BEFORE, AFTER = 'before training', 'after training'
ENCODERS = {BEFORE: 'start.safetensors', AFTER: 'encoder.safetensors'}


def claim(
    folder: Path,
    sources: Sequence[str | Path],
    options: Options,
    given: Collection[str] | None = None,
) -> tuple[list[str], Options, bool]:
    """Store the command of a training in its folder, or compare it with the stored one.

    The same command, or one without videos and options, continues. If there is no checkpoint yet,
    other options, or other or changed videos, lists and encoders, replace the stored ones, and the
    config is kept as ``config.py.old``. Later, changed files get a warning, and only the length of
    the training may be another one, which is then not stored yet. An option of the length alone
    keeps the other options.

    Args:
        folder: Output folder; it exists.
        sources: The videos that the user names, if any.
        options: The options of the user.
        given: Names of the options that the user has given, also those that are equal to their
            defaults; None for all.

    Returns:
        The videos, the options, and whether the folder has a config that belongs to them.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: The folder contains a training with other videos or options, results without
            checkpoints, or other files; or there are no videos.
    """
    note, config = folder / COMMAND, folder / 'config.py'
    stored = read_json(note) if note.is_file() else {}
    videos = [abspath(source) for source in sources] or stored.get('videos', [])
    if not videos:
        raise ValueError(f'{folder} holds no training to continue; give the videos to train on.')
    if stored and given is not None and {*given} <= {*LENGTH} and videos == stored['videos']:
        known = {name: stored[name] for name in asdict(options) if name in stored}
        if given:
            known |= {name: getattr(options, name) for name in LENGTH}
        options = type(options)(**known)
    is_named = bool(sources or not stored)  # otherwise, the videos may be gone
    files = files_of(videos, options) if is_named else []
    command = made_from(files, **asdict(options), videos=videos)
    if not is_named:
        command['files'] = stored['files']
    if any((folder / 'training').glob('*.pth')):
        others = differing(stored, command)
        if other := [x for x in others if x not in ('files', *LENGTH)]:
            raise ValueError(
                f'{folder} was started with other {", ".join(other)}; give another --out. To train '
                'this one for longer, give only --out and more --steps or --hours; to train it '
                f'otherwise, edit {config} and give only --out.'
            )
        if 'files' in others:
            text = (
                'The videos, lists or encoder have changed since the settings were chosen; the '
                'training uses the old ones. Another --out trains on the new ones.'
            )
            print_log(text, 'current', logging.WARNING)
    elif results := [name for name in NAMES if (folder / name).is_file()]:
        raise ValueError(
            f'{folder / results[0]} is of a training whose checkpoints are gone; it would start '
            'anew. Give another --out, or move this file away.'
        )
    elif not stored:
        claim_folder(folder, COMMAND, command)
    elif stored != command:
        if config.is_file():
            config.replace(folder / 'config.py.old')
            print_log('Settings are chosen anew; the former ones are in config.py.old.', 'current')
        replace_text(note, json.dumps(command, indent=2))
    return videos, options, config.is_file()


def files_of(videos: Sequence[str], options: Options) -> list[str | Path]:
    """Return the files that a training is made from: the videos, the lists and the encoder."""
    val = getattr(options, 'val', None)
    sources = [*videos, *([] if val in (None, NONE) else [val])]
    files = [*sources, *(Path(source).with_name('classes.txt') for source in sources)]
    if options.init is not None:
        files += [options.init, *(Path(options.init, name) for name in NAMES)]
    return [*gather_videos(sources), *filter(isfile, files)]


def replace_lists(folder: Path, lists: Mapping[str, Iterable[str]]) -> None:
    """Write ``lists/NAME.txt`` for each name and its lines."""
    (folder / 'lists').mkdir(exist_ok=True)
    for name, lines in lists.items():
        text = ''.join(f'{line}\n' for line in lines)
        (folder / f'lists/{name}.txt').write_text(text, encoding='utf-8')


def write_inputs(folder: Path, root: Path, network: Network) -> None:
    """Write what a config takes from outside, so that no text from outside is in its code.

    Args:
        folder: Output folder.
        root: The common folder of all videos.
        network: The encoder; its description may come from a file.

    Raises:
        ValueError: mmengine, which replaces names in the text of configs, could take the name of a
            folder for code.
    """
    parts = dict(backbone=network.backbone, data_preprocessor=network.preprocessor)
    text = json.dumps(dict(videos=dict(video=str(root)), **parts), indent=2) + '\n'
    if '{{' in text or any(part in str(folder) for part in REFUSED):
        raise ValueError(
            f'The path of the videos has {{{{, or {folder} has one of {" ".join(REFUSED)}; '
            'rename this folder.'
        )
    replace_text(folder / INPUTS, text)


def write_report(folder: Path, paragraphs: Sequence[str]) -> None:
    """Write ``report.md``, which marks a finished training."""
    replace_text(folder / 'report.md', '\n\n'.join(['# Report', *paragraphs]) + '\n')


def name_folder(folder: Path, text: str) -> str:
    """Put a folder in place of OUT in commands of a text; files say OUT, as it may be moved."""
    return text.replace(' OUT ', f' {shlex.quote(str(folder))} ')


def video_root(folder: Path) -> Path:
    """Return the folder that the names in the lists of a training are relative to.

    Raises:
        FileNotFoundError: It does not exist.
    """
    root = Path(read_json(folder / INPUTS)['videos']['video'])
    if not root.is_dir():
        raise FileNotFoundError(
            f'The folder of the videos, {root}, does not exist. Make it available again, or '
            f'replace its path in {folder / INPUTS}; then start the same command again.'
        )
    return root


@dataclass(frozen=True)
class Trained:
    """The videos of a finished training that could be read, and their features.

    Attributes:
        folder: Output folder of the training.
        root: The folder that the names are relative to.
        names: Names of the videos, (V,).
        labels: Class of each video by its folder, or -1, (V,); empty if there are fewer than two.
        classes: Names of the classes.
        held_out: Indices of the videos that were not trained on.
        feats: Features of the trained encoder, (V, C).
        before: Features of the encoder before the training, (V, C).
    """

    folder: Path
    root: Path
    names: list[str]
    labels: list[int]
    classes: list[str]
    held_out: list[int]
    feats: Tensor
    before: Tensor

    @classmethod
    def read(cls, folder: str | Path) -> 'Trained':
        """Read the results of a training.

        Raises:
            FileNotFoundError: The folder is not the output of a finished training.
            ValueError: A file is damaged.
        """
        folder = Path(folder)
        if not (folder / FEATURES).is_file():
            raise FileNotFoundError(
                f'There is no {folder / FEATURES}: this is not the output folder (--out) of a '
                'finished cvrl pretrain.'
            )
        with np.load(folder / FEATURES, allow_pickle=False) as data:
            names = data['names'].tolist()
            feats, before = (torch.from_numpy(data[k]) for k in ('feats', 'feats_before'))
        classes = read_lines(str(folder / 'lists/classes.txt'))
        label_of = dict(read_video_list(str(folder / 'lists/all.txt')))
        labels = [label_of.get(name, -1) for name in names]
        fitted = dict(read_video_list(str(folder / 'lists/train.txt')))
        return cls(
            folder=folder,
            root=Path(read_json(folder / INPUTS)['videos']['video']),
            names=names,
            labels=labels if len({*labels} - {-1}) > 1 else [],
            classes=classes,
            held_out=[i for i, name in enumerate(names) if name not in fitted],
            feats=feats,
            before=before,
        )

    @property
    def chosen(self) -> list[int]:
        """Indices of the videos with a class, or of all videos if there are no classes."""
        labels = self.labels or [0] * len(self.names)
        return [i for i, label in enumerate(labels) if label >= 0]

    def path(self, index: int) -> str:
        """Return the path of a video."""
        return str(self.root / self.names[index])

    def class_of(self, index: int) -> str | None:
        """Return the name of the class of a video, or None."""
        label = self.labels[index] if self.labels else -1
        return self.classes[label] if label >= 0 else None


def write_encoders(folder: Path, cfg: Config, checkpoint: Path) -> None:
    """Write the encoder of a training before and after it.

    Both have the batch norm statistics of the same training clips (:func:`.calibrate`), because a
    training changes these even if it learns nothing.

    Args:
        folder: Output folder.
        cfg: Config of the training.
        checkpoint: The weights after the training, with a description of the clips.
    """
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    models = [build_recognizer(cfg, weights).to(device) for weights in (None, checkpoint)]
    data = cfg.train_dataloader.dataset
    data.max_missing = 0.5  # the training is over
    if not (folder / 'frames').exists():  # gone after the first report
        data.cache = None
    calibrate(cfg, *models)
    trained = load_encoder(checkpoint)  # its clips: the config may have been edited since
    metas = dict(backbone=trained.meta['backbone']), trained.meta
    for model, meta, name in zip(models, metas, ENCODERS.values(), strict=True):
        Encoder(model.backbone, trained.clip_input, meta).save(folder / name)


def read_encoders(folder: Path) -> dict[str, Encoder]:
    """Load the encoder of a training before and after it."""
    return {when: load_encoder(folder / name) for when, name in ENCODERS.items()}


def encode_videos(
    encoders: Mapping[str, Encoder],
    paths: Sequence[str],
    num_workers: int = 0,
    on_progress: OnProgress = no_progress,
) -> tuple[dict[str, Tensor], Features]:
    """Compute the features of videos with several encoders; each video is decoded once.

    Args:
        encoders: Encoders by name, which take the same clips.
        paths: Paths of the videos.
        num_workers: Number of decoding processes.
        on_progress: Called with the number of finished videos and of all videos.

    Returns:
        Features by name of the encoder, (V, C) float32 on the CPU, the means over the clips of the
        V videos that could be read; and these together, with their indices and the errors.
    """
    networks = [encoder.to(get_device()) for encoder in encoders.values()]
    clips = VideoClips(paths, next(iter(encoders.values())).clip_input)

    def encode(x: Tensor) -> Tensor:
        return torch.cat([network.features(x) for network in networks], dim=1)

    parts = extract(encode, batches_of(clips, num_workers=num_workers), average=True)
    found = join_features(tracked(parts, len(paths), on_progress))
    if len(found.errors) == len(paths):
        raise ValueError(describe_lost({paths[i]: why for i, why in found.errors.items()})[0])
    feats = found.vectors.chunk(len(networks), dim=1)
    return dict(zip(encoders, feats, strict=True)), found
