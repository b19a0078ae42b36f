"""Features of many video files, which may be unreadable, written to files."""

from collections import Counter
from collections.abc import Callable, Sequence
from os.path import abspath, commonpath, isfile
from pathlib import Path

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from ..convert.description import ClipInput
from ..datasets.decoding import read, reads_files
from ..datasets.reader import UnreadableVideoError
from ..io import (
    claim_folder,
    file_stamp,
    files_sha256,
    is_current,
    journal,
    locked,
    one_line,
    printable,
    read_journals,
    replacing,
)
from .encoder import Encoder, clip_pipeline
from .features import (
    FeatureStore,
    check_features_path,
    finite,
    weights_sha256,
    write_features,
)


class VideoClips(Dataset):
    """Clips of video files that may be unreadable (Section 4.1: 10 clips of 32 frames, stride 2).

    Args:
        paths: Paths of the videos.
        clip_input: Length, frame interval and size of the clips.
        num_clips: Number of clips per video, evenly spaced.
        timeout_seconds: Longest time for opening or decoding one file.
    """

    def __init__(
        self,
        paths: Sequence[str],
        clip_input: ClipInput,
        num_clips: int = 10,
        timeout_seconds: float = 60,
    ) -> None:
        self.paths = paths
        self.timeout_seconds = timeout_seconds
        self.pipeline = clip_pipeline(clip_input, num_clips)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video.

        Returns:
            A dict with ``inputs``, (num_clips, C, T, H, W) uint8, and ``data_samples``, whose
            ``gt_label`` is the index of the video. For an unreadable video, a dict with ``error``,
            the reason in one line.
        """
        results = dict(filename=self.paths[index], label=index, start_index=0, modality='RGB')
        try:
            for transform in self.pipeline:
                if reads_files(transform):
                    results = read(transform, results, self.timeout_seconds)
                else:
                    results = transform(results)
        except UnreadableVideoError as error:
            return dict(error=error.reason)
        except Exception as error:  # transforms raise many kinds of errors for unusual frames
            return dict(error=one_line(error))
        return results


def extract_to_file(
    encoder: Encoder,
    paths: Sequence[str],
    out: str | Path,
    num_clips: int = 10,
    batch_size: int = 2,
    num_workers: int = 4,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, str] | None:
    """Write one feature vector per video, the mean over its clips.

    Finished videos are kept in the folder ``OUT.parts``, so that another call with the same
    arguments continues an interrupted one. Videos that cannot be read, or at which the decoder
    hangs, are left out. The process that finds all videos finished writes the file.

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
        ValueError: ``out`` has another suffix or cannot contain a path, ``OUT.parts`` holds other
            features, no video could be read, or features are not finite.
    """
    out = Path(out)
    check_features_path(out, paths)
    meta = dict(
        backbone=encoder.meta.get('backbone'),  # equal weights fit networks of other padding
        weights_sha256=weights_sha256(encoder.backbone),
        clips=encoder.clip_input.to_dict(),
        num_clips=num_clips,
        files_sha256=files_sha256(paths),
    )
    store = FeatureStore(out.with_name(f'{out.name}.parts'), meta)

    def encode(clips: Tensor) -> dict[str, Tensor]:
        feats = encoder.features(clips.flatten(0, 1)).unflatten(0, (-1, num_clips))
        return dict(feats=feats.mean(1, keepdim=True))

    videos = VideoClips(paths, encoder.clip_input, num_clips)
    try:
        store.fill(videos, encode, batch_size, num_workers, rank, size, on_progress)
    except FileNotFoundError:
        if not out.exists():
            raise
        return None  # the same command has finished meanwhile, and removed the store
    try:
        with locked(store.folder):
            found = store.load()
            if found.feats:
                names = [paths[i] for i in found.indices.tolist()]
                write_features(out, names, found.feats['feats'][:, 0])
            store.remove()
    except (BlockingIOError, FileNotFoundError):  # another process is at work, or has joined
        return None
    failed = {paths[i]: reason for i, reason in found.errors.items()}
    if not found.feats:
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
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
    folder = Path(folder)
    files = [Path(abspath(path)) for path in paths]
    root = Path(commonpath([file.parent for file in files]))
    names = [file.relative_to(root).with_suffix('').as_posix() for file in files]
    made_from = read_journals(folder / '.finished')
    files_of = dict(zip(names, map(str, files), strict=True))
    earlier = [
        name
        for name, stamp in made_from.items()
        if name in files_of and (path := stamp.split('\0')[0]) != files_of[name] and isfile(path)
    ]
    double, count = Counter([*names, *earlier]).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f'Two videos have the name {double} without suffix; extract them into two folders.'
        )
    about = dict(
        backbone=encoder.meta.get('backbone'),
        weights_sha256=weights_sha256(encoder.backbone),
        clips=encoder.clip_input.to_dict(),
        every_seconds=every_seconds,
        root=str(root),
    )
    claim_folder(folder, 'about.json', about)
    failed = {}
    share = list(zip(paths, names, strict=True))[rank::size]
    with journal(folder / '.finished') as remember:
        for done, (path, name) in enumerate(share, 1):
            targets = [folder / kind / f'{name}.npy' for kind in ('feats', 'times')]
            stamp = file_stamp(path)
            if not all(is_current(made, stamp, made_from.get(name)) for made in targets):
                found = over_time(encoder, encoder.features, path, every_seconds)
                if isinstance(found, str):
                    failed[path] = found
                    for target in targets:
                        target.unlink(missing_ok=True)  # of an earlier state of the video
                else:
                    for target, values in zip(targets, found, strict=True):
                        target.parent.mkdir(parents=True, exist_ok=True)
                        with replacing(target) as part:
                            np.save(part, values)
                    remember(name, stamp)
            on_progress(done, len(share))
    return failed


def over_time(
    encoder: Encoder, encode: Callable[[Tensor], Tensor], video: str, every_seconds: float
) -> tuple[np.ndarray, np.ndarray] | str:
    """Apply a function to clips at regular times of a video; see :meth:`Encoder.windows`.

    Args:
        encoder: The encoder whose clips are taken.
        encode: From clips, (n, 3, T, H, W), to (n, C).
        video: Path of the file.
        every_seconds: Distance between the starts of two clips.

    Returns:
        The results, (T, C), and the start and end of each clip in seconds, (T, 2); or the reason
        why the video has none.

    Raises:
        ValueError: Results are not finite.
    """
    try:
        parts = [
            (finite(encode(clips), video).cpu().numpy(), times)
            for clips, times in encoder.windows(video, every_seconds)
        ]
    except UnreadableVideoError as error:
        return error.reason
    except FileNotFoundError:
        return 'it does not exist'
    if not parts:
        return 'it is shorter than a clip'
    values, times = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(times)
