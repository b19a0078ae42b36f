"""Features of videos in files: one vector per video, or features over time."""

import shutil
from collections import Counter
from collections.abc import Sequence
from os.path import abspath, commonpath
from pathlib import Path

import numpy as np
from torch import Tensor

from ..datasets.reader import UnreadableVideoError
from ..encoder.encoder import NUM_CLIPS, Encoder
from ..io import (
    check_target,
    claim_folder,
    file_stamp,
    is_current,
    journal,
    locked,
    made_from,
    read_journals,
    replacing,
)
from ..text import printable
from .clips import VideoClips
from .features import FeatureStore, OnProgress, described, no_progress, over_time


def extract_to_file(
    encoder: Encoder,
    paths: Sequence[str],
    out: str | Path,
    num_clips: int = NUM_CLIPS,
    batch_size: int = 2,
    num_workers: int = 4,
    rank: int = 0,
    size: int = 1,
    on_progress: OnProgress = no_progress,
) -> dict[str, str] | None:
    """Write one feature vector per video, the mean over its clips.

    Finished videos are kept in the folder ``OUT.parts``, so that another call with the same
    arguments continues an interrupted one. Videos that cannot be read, or that make the decoder
    hang, are left out. The process that finds all videos finished writes the file.

    Args:
        encoder: The encoder, on the device to compute on.
        paths: Paths of the videos.
        out: A file name that ends in ``.npz`` or ``.parquet``.
        num_clips: Number of clips per video.
        batch_size: Number of videos per batch.
        num_workers: Number of decoding processes.
        rank: Rank of this process; it encodes every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of finished videos and the number of all videos of
            this process.

    Returns:
        The unreadable videos, as ``{path: reason}``; None if another process has not finished its
        videos or writes the file.

    Raises:
        ValueError: ``out`` has another suffix, ``OUT.parts`` holds other features, no video could
            be read, or features are not finite.
    """
    out = Path(out)
    check_features_path(out, paths)
    about = made_from(paths, **described(encoder, num_clips=num_clips))
    store = FeatureStore(out.with_name(f'{out.name}.parts'), about)
    videos, part = VideoClips(paths, encoder.clip_input, num_clips), (rank, size, on_progress)
    store.fill(encoder.features, videos, batch_size, num_workers, *part)
    try:
        with locked(store.folder, wait=True):  # for one that looked too early to find this share
            found = store.load()
            if len(found.feats):
                write_features(out, [paths[i] for i in found.indices.tolist()], found.vectors)
            shutil.rmtree(store.folder, ignore_errors=True)  # another process may look into it
    except FileNotFoundError:  # others have not finished, or one has written the file
        return None
    failed = {paths[i]: reason for i, reason in found.errors.items()}
    if not len(found.feats):
        first = ': '.join(next(iter(failed.items())))
        raise ValueError(f'None of the videos can be read; the first one: {printable(first)}')
    return failed


def extract_over_time(
    encoder: Encoder,
    paths: Sequence[str],
    folder: str | Path,
    every_seconds: float,
    rank: int = 0,
    size: int = 1,
    on_progress: OnProgress = no_progress,
) -> dict[str, str]:
    """Write the features over time of each video, (T, C) float32, to a file of its own.

    ``FOLDER/feats/NAME.npy`` has the features and ``FOLDER/times/NAME.npy`` the start and end of
    each clip in seconds, (T, 2). NAME is the path below the folder that all videos share, without
    suffix. The same call continues an interrupted one: the files of a video are kept unless it has
    been modified or replaced since.

    Args:
        encoder: The encoder, on the device to compute on.
        paths: Paths of the videos.
        folder: Output folder.
        every_seconds: Distance between the starts of two clips.
        rank: Rank of this process; it encodes every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of finished videos and the number of all videos of
            this process.

    Returns:
        The videos of this process that are left out, as ``{path: reason}``.

    Raises:
        ValueError: Two videos have the same NAME, or the folder holds other files or features, or
            features are not finite.
    """
    folder, (root, names) = Path(folder), _names_below_root(paths)
    about = described(encoder, every_seconds=every_seconds, root=root)
    claim_folder(folder, 'about.json', about)
    finished, failed = read_journals(folder / '.finished'), {}
    share = list(zip(paths, names, strict=True))[rank::size]
    with journal(folder / '.finished') as remember:
        for done, (path, name) in enumerate(share):
            on_progress(done, len(share))
            stamp = file_stamp(path)  # before the video is read
            targets = [folder / kind / f'{name}.npy' for kind in ('feats', 'times')]
            if all(is_current(target, stamp, finished.get(name)) for target in targets):
                continue
            try:
                found = over_time(encoder.features, encoder, path, every_seconds)
            except UnreadableVideoError as error:
                failed[path] = error.reason
                continue
            for target, values in zip(targets, found, strict=True):
                target.parent.mkdir(parents=True, exist_ok=True)
                with replacing(target) as file:
                    np.save(file, np.asarray(values))
            remember(name, stamp)
    on_progress(len(share), len(share))
    return failed


def _names_below_root(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder that all videos share, and their paths below it without suffix."""
    files = [Path(abspath(path)) for path in paths]
    root = commonpath([file.parent for file in files])
    names = [file.relative_to(root).with_suffix('').as_posix() for file in files]
    double, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f'Two videos have the name {double} without suffix.')
    return root, names


def check_features_path(path: str | Path, names: Sequence[str] = ()) -> None:
    """Check that :func:`write_features` can write a file, before the features are computed.

    Raises:
        ImportError: pyarrow, which is needed for ``.parquet``, is not installed.
        ValueError: ``path`` has another suffix, or is a folder or a device; or a name is not UTF-8,
            which ``.parquet`` needs.
    """
    path = Path(path)
    if path.suffix not in ('.npz', '.parquet'):
        raise ValueError(f'Features need a file ending in .npz or .parquet, got {path}.')
    check_target(path)
    if path.suffix == '.parquet':
        import pyarrow.parquet  # noqa: F401

        for name in names:
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f'The name {printable(name)} is not UTF-8, as {path} needs it; rename '
                    'the video, or write an .npz file.'
                ) from None


def write_features(path: str | Path, names: Sequence[str], feats: np.ndarray | Tensor) -> None:
    """Write one vector per video to a file.

    Args:
        path: An ``.npz`` file, with the arrays ``names``, (N,), and ``feats``, (N, C) float32; or
            a ``.parquet`` file, with the columns ``name`` and ``feat``.
        names: Names of the videos, (N,).
        feats: Features, (N, C).

    Raises:
        ImportError, ValueError: See :func:`check_features_path`.
    """
    check_features_path(path, names)
    feats = np.ascontiguousarray(feats, np.float32)
    with replacing(path) as part:
        if part.suffix == '.npz':
            np.savez(part, names=np.array(names), feats=feats)
            return
        import pyarrow as pa
        from pyarrow import parquet

        column = pa.FixedSizeListArray.from_arrays(pa.array(feats.ravel()), feats.shape[1])
        parquet.write_table(pa.table({'name': list(names), 'feat': column}), part)
