"""The output folder of a training: the command that it belongs to, its lists and its results."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count
from os import fsencode
from os.path import abspath, getsize, isfile
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import print_log
from torch import Tensor

from ..convert.files import NAMES
from ..datasets.lists import gather_videos, read_lines, read_video_list
from ..evaluation.encoder import Encoder, build_recognizer, calibrate, load_encoder
from ..io import file_sha256, file_stamp, printable, read_json, replacing
from .config import INPUTS
from .plan import Options

COMMAND = 'command.json'
FEATURES = 'features.npz'
BEFORE, AFTER = 'before training', 'after training'
ENCODERS = {BEFORE: 'start.safetensors', AFTER: 'encoder.safetensors'}
AGAIN = 'Remove report.md; then cvrl pretrain --out {} writes the results (again).'
NUM_CLIPS = 4  # per video, evenly spaced
BATCH_VIDEOS = 4


def claim(
    folder: Path,
    sources: Sequence[str | Path],
    options: Options,
    given: bool = True,
) -> tuple[list[str], Options, bool]:
    """Store the command of a training in its folder, or compare it with the stored one.

    The same command, or one without videos and options, continues; a warning says so if lists,
    folders or the encoder have changed. If there is no checkpoint yet and the videos are named,
    other videos and options, or changed lists, folders and encoders, replace the stored ones, and
    the config is kept as ``config.py.oldN``.

    Args:
        folder: Output folder; it exists.
        sources: The videos that the user names, if any.
        options: The options of the user.
        given: Whether the user has given any option, also one that is equal to its default.

    Returns:
        The videos, the options, and whether the folder has a config that belongs to them.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: The folder contains a training with other videos or options, other files, or
            neither a training nor the command of one and there are no videos.
    """
    note, config = folder / COMMAND, folder / 'config.py'
    videos = [abspath(source) for source in sources]
    is_trained = any((folder / 'training').glob('*.pth')) or result_in(folder) is not None
    if note.is_file():
        stored = read_command(folder, type(options))
        videos = videos or stored['videos']
        if not given and videos == stored['videos']:
            options = type(options)(**stored['options'])
        changed = [name for name, x in asdict(options).items() if x != stored['options'][name]]
        if videos != stored['videos']:
            changed = ['videos']
        if changed and is_trained:
            raise ValueError(
                f'{folder} holds a training with other {", ".join(changed)}. Give another --out '
                f'for a new training, or only --out to continue this one. To change settings for '
                f'the rest of it, edit {config}.'
            )
        try:
            is_same = state_of(videos, options) == stored['state']
        except (FileNotFoundError, ValueError):  # the videos are elsewhere now
            if sources:
                raise
            is_same = True
        if not changed and config.is_file() and (is_same or is_trained or not sources):
            if not is_same:
                print_log(
                    'The videos, lists or encoder have changed since the settings were chosen; the '
                    'training uses those of then. Another --out trains on the new ones.',
                    'current',
                    logging.WARNING,
                )
            return videos, options, True
    elif any(not path.name.startswith('.') for path in folder.iterdir()):
        raise ValueError(f'{folder} holds other files and no training; choose a new folder.')
    if not videos:
        raise ValueError(f'{folder} holds no training to continue; give the videos to train on.')
    command = dict(videos=videos, options=asdict(options), state=state_of(videos, options))
    if config.is_file():
        names = (folder / f'config.py.old{i}' for i in count(1))
        config.replace(kept := next(path for path in names if not path.exists()))
        anew = f'Settings are chosen anew; the former ones are in {kept}.'
        print_log(anew, 'current', logging.WARNING)
    with replacing(note) as part:
        part.write_text(json.dumps(command, indent=2) + '\n', encoding='utf-8')
    return videos, options, False


def result_in(folder: Path) -> Path | None:
    """Return the path of the trained weights in a folder, if there are any."""
    return next((path for name in NAMES if (path := folder / name).is_file()), None)


def state_of(videos: Sequence[str], options: Options) -> str:
    """Return a digest of the videos (names and sizes), the lists and the encoder."""
    sources = [*videos, *filter(None, [getattr(options, 'val', None)])]
    files = [*map(Path, sources), *(Path(source).with_name('classes.txt') for source in sources)]
    if options.init is not None:
        files += [Path(options.init), *(Path(options.init, name) for name in NAMES)]
    stamps = [  # a list may have been written again
        file_sha256(path) if path.suffix == '.txt' else file_stamp(path)
        for path in files
        if path.is_file()
    ]
    sizes = [f'{path}\0{getsize(path) if isfile(path) else 0}' for path in gather_videos(sources)]
    return sha256(fsencode('\n'.join([*sizes, *stamps]))).hexdigest()


def read_command(folder: Path, kind: type[Options] = Options) -> dict:
    """Read the stored command: ``videos``, a list of paths, ``options``, a dict, and ``state``.

    Raises:
        ValueError: The file is damaged, or of another command.
    """
    note = folder / COMMAND
    try:
        stored = read_json(note)
        videos, options = list(stored['videos']), kind(**stored['options'])
        if lacking := asdict(options).keys() - stored['options'].keys():
            raise ValueError(f'it has no {min(lacking)}')
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{note} is damaged or of another command: {error!r}.') from error
    return dict(videos=videos, options=asdict(options), state=stored.get('state'))


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
class Lists:
    """The lists of a training.

    Attributes:
        root: The folder that the names are relative to.
        names: Names of all videos.
        labels: By name, the class of each video by its folder; empty if the folders are none.
        classes: Names of the classes.
        train: Names of the videos that were trained on.
    """

    root: Path
    names: list[str]
    labels: dict[str, int]
    classes: list[str]
    train: set[str]

    @classmethod
    def read(cls, folder: Path) -> 'Lists':
        """Read the lists of a training.

        Raises:
            FileNotFoundError: A file does not exist.
            ValueError: A file is damaged, or there are fewer names of classes than labels.
        """
        labels = dict(read_video_list(str(folder / 'lists/all.txt')))
        classes = [name for name in read_lines(str(folder / 'lists/classes.txt')) if name]
        if max(labels.values()) >= len(classes):
            raise ValueError(f'{folder / "lists/classes.txt"} lacks a class of all.txt beside it.')
        return cls(
            root=Path(read_json(folder / INPUTS)['videos']['video']),
            names=list(labels),
            labels=labels if classes else {},
            classes=classes,
            train={name for name, _ in read_video_list(str(folder / 'lists/train.txt'))},
        )

    def held_out(self, names: list[str]) -> list[int]:
        """Return the indices of the held-out videos."""
        return [i for i, name in enumerate(names) if name not in self.train]

    def labels_of(self, names: list[str]) -> list[int]:
        """Return the class of each video, or -1; empty if there are fewer than two classes."""
        labels = [self.labels.get(name, -1) for name in names]
        return labels if len({*labels} - {-1}) > 1 else []


@dataclass(frozen=True)
class Trained:
    """The features of all videos of a training.

    Attributes:
        folder: Output folder of the training.
        lists: Lists of the videos.
        names: Names of the videos that could be read, (V,).
        feats: Features of the trained encoder, (V, C).
        untrained: Features of the encoder before the training, (V, C).
        changed: Names of the videos that have changed since or are gone.
    """

    folder: Path
    lists: Lists
    names: list[str]
    feats: Tensor
    untrained: Tensor
    changed: Set[str] = frozenset()

    @classmethod
    def read(cls, folder: str | Path) -> 'Trained':
        """Read the results of a training.

        Raises:
            FileNotFoundError: The folder is not the output of a training, or the training is not
                finished.
            ValueError: A file is damaged.
        """
        folder = Path(folder)
        if not (folder / INPUTS).is_file():
            raise FileNotFoundError(
                f'{folder} is not the output folder (--out) of a training by cvrl pretrain.'
            )
        path = folder / FEATURES
        again = AGAIN.format(folder)
        if not path.is_file():
            raise FileNotFoundError(f'There is no {path}. {again}')
        try:
            with np.load(path, allow_pickle=False) as arrays:
                data = dict(arrays)
            names = data['names'].tolist()
            both = [torch.from_numpy(data[key]).float() for key in ('feats', 'feats_untrained')]
            for x in both:
                if x.ndim != 2 or len(x) != len(set(names)) or not x.isfinite().all():
                    raise ValueError('it must have one unique name and finite vectors per video')
            sizes = dict(zip(names, data['bytes'].tolist(), strict=True))
        except Exception as error:  # a damaged archive can raise any exception
            raise ValueError(f'{path} is damaged ({error}). {again}') from error
        lists = Lists.read(folder)
        paths = {name: lists.root / name for name in names}
        now = {k: x.stat().st_size if x.is_file() else None for k, x in paths.items()}
        gone = [k for k, size in now.items() if size is None]
        changed = [k for k, size in now.items() if size not in (None, sizes[k])]
        for what, found, advice in (('have changed', changed, again), ('are gone', gone, '')):
            if found:
                print_log(
                    f'{len(found)} of the {len(names)} videos {what} since the features were '
                    f'computed, such as {printable(found[0])}. {advice}',
                    'current',
                    logging.WARNING,
                )
        return cls(folder, lists, names, both[0], both[1], {*changed, *gone})

    def path(self, index: int) -> str:
        """Return the path of a video."""
        return str(self.lists.root / self.names[index])

    def class_of(self, index: int) -> str | None:
        """Return the name of the class of a video, or None."""
        label = self.lists.labels.get(self.names[index], -1)
        return self.lists.classes[label] if label >= 0 else None


def describe_failed(failed: Mapping[str, str], total: int) -> str:
    """Say how many videos could not be read, and name the first one; '' if there are none."""
    for name, reason in failed.items():
        what = f'{len(failed)} of {total} videos could not be read, such as'
        return f'{what} {printable(name)}: {printable(reason)}.'
    return ''


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
    cfg.train_dataloader.dataset.max_missing = 0.5  # a report needs more than half
    calibrate(cfg, *models)
    trained = load_encoder(checkpoint)  # its clips: the config may have been edited since
    trained.meta.pop('cfg', None)  # it is beside the encoder, and has the user's paths
    metas = dict(backbone=trained.meta['backbone']), trained.meta
    for model, meta, name in zip(models, metas, ENCODERS.values(), strict=True):
        Encoder(model.backbone, trained.clip_input, meta).save(folder / name)


def read_encoders(folder: Path) -> dict[str, Encoder]:
    """Load the encoder of a training before and after it."""
    return {when: load_encoder(folder / name) for when, name in ENCODERS.items()}


def jointly(encoders: Mapping[str, Encoder]) -> Callable[[Tensor], Tensor]:
    """Return a function of clips, (M, C, T, H, W), that gives the features of several encoders.

    The features lie side by side, (M, D): ``chunk(len(encoders), dim=1)`` divides them. The
    encoders are moved to the GPU if there is one.
    """
    networks = [encoder.to(get_device()) for encoder in encoders.values()]
    return lambda clips: torch.cat([network.features(clips) for network in networks], dim=1)
