"""The one reader of labels: lists, class folders, folders of a training, and configs.

:func:`read_labelled` reads the videos of lists and folders, :func:`read_split` those for training
and for testing, and :func:`split` decides which ones are tested by which. :func:`config_features`
gives the features of the two lists of a config.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from os.path import abspath, getsize, normpath, realpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dist import barrier, get_rank, get_world_size, is_main_process
from mmengine.logging import print_log
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from torch import Tensor

from ..datasets.frame_folder import FrameFolder
from ..datasets.lists import (
    check_labels,
    check_numbering,
    class_folders,
    find_videos,
    read_labels,
    video_list,
)
from ..datasets.reader import UnreadableVideoError
from ..encoder.encoder import Encoder
from ..io import file_sha256, made_from, read_json
from ..progress import progress
from ..text import printable
from .clips import ListClips
from .features import Features, FeatureStore, describe_lost, described

MIN_CLASS_VIDEOS = 5
FOLDS = 5
TRAINED = 'lists/all.txt'  # in the folder of a training by cvrl pretrain
Folds = Sequence[tuple[Tensor, Tensor]]


class LabelledVideo(NamedTuple):
    """A video and its label.

    Attributes:
        path: Absolute path.
        name: The path as a list has it, or relative to the folder that was given.
        label: The name of the class; '' if there is none.
    """

    path: str
    name: str
    label: str


def read_labelled(
    sources: Iterable[str | Path], root: str | Path | None = None
) -> dict[str, LabelledVideo]:
    """Read the class of each video: its folder, or its label in a list.

    Args:
        sources: Lists with lines ``path label`` (see :func:`.read_labels`); folders of class
            folders, in which a video beside these has no label; folders of one class, whose name
            is the folder's; and folders of a training by ``cvrl pretrain``, which have the classes
            of its videos.
        root: Where a path of a list that is not a file beside the list is looked for.

    Returns:
        The videos by the path of the file after links; the first name of each file.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: A video has two labels, or a folder holds both training and test videos; or see
            :func:`.read_labels`.
    """
    videos: dict[str, LabelledVideo] = {}
    for source in map(Path, sources):
        if (source / TRAINED).is_file():
            base = read_json(source / 'inputs.json')['videos']['video']
            found = [(Path(base, x), x, label) for x, label in read_labels(source / TRAINED, base)]
        elif source.is_dir():
            found = [(source / name, name, label) for name, label in _folder_labels(source)]
        else:
            found = [(source.parent / x, x, label) for x, label in read_labels(source)]
            if root is not None:
                found = [(p if p.exists() else root / Path(x), x, y) for p, x, y in found]
        for path, name, label in found:
            video = LabelledVideo(abspath(path), name, label)
            if (known := videos.setdefault(realpath(path), video)).label != label:
                raise ValueError(f'{name} has the labels {known.label} and {label or "none"}.')
    return videos


def _folder_labels(source: Path) -> list[tuple[str, str]]:
    """Return the names of the videos below a folder, and their classes."""
    names = [path.relative_to(source).as_posix() for path in find_videos(source)]
    folders = class_folders(names)
    splits = {name.split('/')[0] for name in names if '/' in name} - {*folders}
    if len(splits) > 1:
        both = ' and '.join(sorted(splits))
        raise ValueError(f'{source} holds {both}; name each of them (--val or --test).')
    own = '' if any(folders) else source.absolute().name  # beside class folders, it has none
    return [(name, folder or own) for name, folder in zip(names, folders, strict=True)]


def read_split(
    source: str | Path, test: str | Path | None = None, root: str | Path | None = None
) -> tuple[list[LabelledVideo], list[LabelledVideo], list[str]]:
    """Read labelled videos for training and for testing.

    Videos without a label and exact copies of earlier ones are left out.

    Args:
        source: See :func:`read_labelled`.
        test: Likewise, the test videos; None if there is no split.
        root: See :func:`read_labelled`.

    Returns:
        The videos of ``source`` and of ``test``, and lines about what is left out.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: A source has no labels, or both have a video; or see :func:`read_labelled`.
    """
    train, notes = _with_labels(source, root)
    tested, others = ({}, []) if test is None else _with_labels(test, root)
    notes += others
    if shared := [video.name for path, video in tested.items() if path in train]:
        raise ValueError(f'{len(shared)} of the videos in {test} are also in {source}: {shared[0]}')
    copies = find_copies(Path(), [*train, *tested])
    if copies:
        name, original = ((train | tested)[path].name for path in next(iter(copies.items())))
        notes.append(f'{len(copies)} exact copies are left out, such as {name} of {original}')
    first, second = ([x for k, x in part.items() if k not in copies] for part in (train, tested))
    return first, second, notes


def _with_labels(
    source: str | Path, root: str | Path | None
) -> tuple[dict[str, LabelledVideo], list[str]]:
    found = read_labelled([source], root)
    lacking = [video.name for video in found.values() if not video.label]
    if videos := {path: video for path, video in found.items() if video.label}:
        what = f'{len(lacking)} videos without a label are left out'
        return videos, [f'{what}, such as {lacking[0]}'] if lacking else []
    raise ValueError(f'{source} has no labels: lines "path label", or folders that are classes.')


def find_copies(root: Path, names: Sequence[str]) -> dict[str, str]:
    """Find videos with the same bytes as an earlier one.

    Args:
        root: The folder to which the names are relative.
        names: Names of the files and of the folders of frames, which must also have equal times.

    Returns:
        Copies, as ``{name: name of the first video with the same bytes}``.
    """
    keys: dict[str, tuple] = {name: () for name in names if (root / name).exists()}
    for part in (getsize, file_sha256):  # the second one only for files of equal size
        count = Counter(keys.values())
        keys = {n: (*k, _of_files(part, root / n)) if count[k] > 1 else k for n, k in keys.items()}
    first: dict[tuple, str] = {}
    return {n: first[k] for n, k in keys.items() if first.setdefault(k, n) != n}


def _of_files(what: Callable[[str], Any], path: Path) -> Any:
    """Return what a function finds in a file, or in the images of a folder and their times."""
    if path.is_file():
        return what(str(path))
    with suppress(UnreadableVideoError, OSError):
        folder = FrameFolder(path)
        return *folder.times, *(what(str(path / name)) for name in folder.files)
    return str(path)  # which nothing else has


def split(
    videos: Sequence[LabelledVideo], num_train: int | None = None, groups: str | None = None
) -> tuple[Tensor, Folds, str]:
    """Decide which videos are tested by classifiers that are fitted to which others.

    Args:
        videos: The N videos. Their first ``num_train`` are fitted to and the others are tested, or
            by default, each is tested once by what is fitted to the others.
        num_train: See above.
        groups: A regular expression with one group, which is the person or the recording in the
            name of a video. Videos that are fitted to and tested videos then never have the same.

    Returns:
        Numbers of the classes, (N,); pairs of indices of videos to fit to and to test; and a line
        about them.

    Raises:
        ValueError: There are too few classes, videos of a class or groups, or ``groups`` is given
            for a split.
    """
    labels = [video.label for video in videos]
    count = Counter(labels[:num_train])
    listed = ', '.join(f'{name} {number}' for name, number in count.most_common())
    if len(count) < 2:
        raise ValueError(
            f'Two classes are needed, found {listed:.200}. A class is a folder of videos, or a '
            'label in a list of lines "path label".'
        )
    if num_train is None and min(count.values()) < MIN_CLASS_VIDEOS:
        raise ValueError(
            f'{MIN_CLASS_VIDEOS} videos of each class are needed where they are split here, for '
            f'test videos see --test; found {listed:.200}.'
        )
    classes = sorted({*labels})
    targets = torch.tensor([classes.index(label) for label in labels])
    folds: Folds
    if num_train is None:
        apart = None if groups is None else groups_of(groups, [video.name for video in videos])
        folds = split_in_folds(targets, apart)
        note = (
            f'{len(videos)} videos of {len(classes)} classes in {len(folds)} parts; each is tested '
            'with classifiers that are fitted to the others'
        )
    elif groups is not None:
        raise ValueError('--groups splits the videos; with --test, they are split already.')
    else:
        folds = [(torch.arange(num_train), torch.arange(num_train, len(videos)))]
        of = f'of {len(classes)} classes'
        note = f'fitted to {num_train} videos {of}, tested on {len(videos) - num_train} videos'
    for fitted, tested in folds:
        if alone := unfitted(targets, fitted, tested):
            of = f'of the class {classes[min(alone)]}'
            if num_train is not None:
                known = ', '.join(classes[i] for i in targets[fitted].unique().tolist()[:6])
                raise ValueError(
                    f'There is no training video {of}, which held-out videos have; the training '
                    f'videos have the classes {known}{", …" if len(count) > 6 else ""}.'
                )
            raise ValueError(f'There is no video to fit to {of}; --groups needs several of each.')
    return targets, folds, note


def unfitted(targets: Tensor, fitted: Tensor, tested: Tensor) -> set[int]:
    """Return the classes of videos to test, given by their indices, of which none is fitted to."""
    return {*targets[tested].tolist()} - {*targets[fitted].tolist()}


def split_in_folds(labels: Tensor, groups: Sequence[str] | None = None) -> Folds:
    """Split videos at random into at most five parts, each tested with the others for training.

    Args:
        labels: Labels, (V,); each part has its share of each class.
        groups: Group of each video; a group is never divided.

    Raises:
        ValueError: There are fewer than two groups.
    """
    number = min(FOLDS, int(labels.unique(return_counts=True)[1].max()))
    if groups is None:
        found = StratifiedKFold(number, shuffle=True, random_state=0).split(labels, labels)
        return [(torch.from_numpy(train), torch.from_numpy(test)) for train, test in found]
    names = sorted({*groups})
    # At random here: scikit-learn before 1.9 divides classes wrongly with shuffle=True
    places = np.random.default_rng(0).permutation(len(names))[[*map(names.index, groups)]]
    parts = places
    if len(names) > number:
        parts = np.zeros_like(places)
        found = StratifiedGroupKFold(number).split(labels, labels, places)  # which is slow
        for part, (_, test) in enumerate(found):
            parts[test] = part
    tests = [torch.from_numpy(parts == part) for part in np.unique(parts)]
    if len(tests) < 2:
        raise ValueError('Two groups of videos are needed.')
    return [(torch.nonzero(~test)[:, 0], torch.nonzero(test)[:, 0]) for test in tests]


def groups_of(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the group of each video.

    Args:
        pattern: A regular expression with one group, which is the person or the recording.
        names: Names of the videos.

    Raises:
        ValueError: This is no such expression, or it does not match in a name, or there are fewer
            than two groups.
    """
    try:
        found = [re.search(pattern, name) for name in names]
    except re.error as error:
        raise ValueError(f'--groups {pattern!r} is no regular expression: {error}.') from None
    groups = [match[1] for match in found if match and match.re.groups and match[1]]
    if len(groups) < len(names) or len({*groups}) < 2:
        raise ValueError(
            f'--groups {pattern!r} finds {len({*groups})} groups in {len(groups)} of {len(names)} '
            'names; it needs a group that is in each name, such as "person([0-9]+)".'
        )
    return groups


def hold_out_groups(names: Sequence[str], labels: Sequence[str], pattern: str) -> set[str]:
    """Choose about a fifth of the videos in whole groups, if possible without a whole class.

    Args:
        names: Names of the videos.
        labels: Their classes.
        pattern: See :func:`groups_of`.

    Returns:
        The names of the held-out videos.

    Raises:
        ValueError: See :func:`groups_of`.
    """
    groups = groups_of(pattern, names)
    targets = torch.tensor([*map(sorted({*labels}).index, labels)])
    parts = split_in_folds(targets, groups)
    whole = [tested for fitted, tested in parts if not unfitted(targets, fitted, tested)]
    return {names[i] for i in [*whole, parts[0][1]][0]}


def lost_classes(labels: Iterable[str], left: Iterable[str]) -> list[str]:
    """Name the classes of which no video is left in a line; [] if there are none."""
    gone = sorted({*labels} - {*left} - {''})
    if not gone:
        return []
    named = printable(', '.join(gone[:6]) + (', …' if len(gone) > 6 else ''))
    return [f'No video can be read of {len(gone)} classes, which are left out: {named}']


def check_config(cfg: Config, num_classes: int | None = None) -> None:
    """Check the labels of a config's training and test videos; warn of what makes results wrong.

    Args:
        cfg: Config with ``train_dataloader`` and ``test_dataloader``.
        num_classes: Number of classes; None accepts any label.

    Raises:
        ValueError: A video has no label or one out of range, the lists number the classes
            differently, or the training videos are of one class.
    """
    train, test = cfg.train_dataloader.dataset, cfg.test_dataloader.dataset
    classes, tested = (check_labels(dataset, num_classes) for dataset in (train, test))
    check_numbering(train.ann_file, test.ann_file)
    if len(classes) == 1:
        raise ValueError(f'{train.ann_file} has one class; a classifier needs two classes.')
    if lacking := tested - classes:
        which = f'{len(lacking)} of the {len(tested)} tested classes, such as {min(lacking)}'
        _warn(f'{train.ann_file} has no videos of {which}; theirs cannot be classified.')
    paths = [{normpath(v['filename']) for v in video_list(dataset)} for dataset in (train, test)]
    if shared := paths[0] & paths[1]:
        which = f'{len(shared)} videos of {test.ann_file}, such as {printable(min(shared))},'
        _warn(f'{which} are also in {train.ann_file}. The results are too high.')


def _warn(text: str) -> None:
    print_log(text, logger='current', level=logging.WARNING)


def config_features(
    encoder: Encoder, loader: ConfigDict, folder: Path, views: int = 1, average: bool = False
) -> Features:
    """Compute the features of a data loader's list, or read them from a store.

    All ranks must call this function: each one encodes its share, and all read all features.
    Videos that cannot be read are left out, with a warning.

    Args:
        encoder: The encoder on its device, in evaluation mode.
        loader: Config of a data loader.
        folder: Folder of the :class:`FeatureStore`.
        views: Number of runs of the pipeline per video.
        average: Whether to store the mean over the clips of a video instead of each clip.

    Returns:
        Features in float16 and labels, on the encoder's device.

    Raises:
        ValueError: The folder holds other features, or none of the videos can be read.
    """
    data = loader.dataset
    paths = [video['filename'] for video in video_list(data)]
    settings = dict(list_sha256=file_sha256(data.ann_file), pipeline=data.pipeline)
    about = described(encoder, **settings, views=views, average=average)
    store = FeatureStore(folder, made_from(paths, **about))
    with progress(f'Features of {data.ann_file}', disable=not is_main_process()) as on_progress:
        how = loader.batch_size, loader.num_workers, get_rank(), get_world_size(), on_progress
        store.fill(encoder.features, ListClips(data, views), *how, average, torch.float16)
    barrier()
    found, device = store.load(), encoder.mean.device
    lost = describe_lost({printable(paths[i]): why for i, why in found.errors.items()})
    if not len(found.feats):
        raise ValueError(f'{data.ann_file}: {lost[0]}')
    for line in lost:
        _warn(f'{data.ann_file}: {line}')
    return Features(found.feats.to(device), found.labels.to(device), found.indices, found.errors)
