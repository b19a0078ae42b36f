"""Features of videos from frozen encoders: how they are computed, stored and written to files.

:func:`extract` is the one loop over clips. What it yields is used at once, or kept in a
:class:`FeatureStore`, a folder that several processes can fill and an interrupted job continues::

    meta.json                what the features depend on
    feats_000000000.pth      the fields of :class:`Features` of a block of videos, a file of torch
    feats_000000064.pth ...  that is named by the first one
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import abspath, commonpath
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmaction.registry import DATASETS
from safetensors.torch import save
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from ..datasets.decoding import read, reads_files
from ..datasets.reader import UnreadableVideoError
from ..datasets.seeding import seeded_draws
from ..encoder.description import ClipInput
from ..encoder.encoder import Encoder, clip_pipeline
from ..io import (
    check_target,
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
from ..models.weights import is_counter, load_checkpoint

TIMEOUT_SECONDS = 60  # for opening or decoding one file
BLOCK_VIDEOS = 64  # per file of the store, rounded up to whole batches: what a kill may cost
Encode = Callable[[Tensor], Tensor]  # clips, (M, C, T, H, W), to features, (M, D)
OnProgress = Callable[[int, int], None]  # takes the number of finished videos and of all videos


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


class VideoClips(Dataset):
    """Evenly spaced clips of video files that may be unreadable (Sec. 4.1: 10 clips per video).

    Args:
        paths: Paths of the videos.
        clip_input: Length, frame interval and size of the clips.
        num_clips: Number of clips per video.
        labels: Labels of the videos; by default -1 for all.
    """

    def __init__(
        self,
        paths: Sequence[str],
        clip_input: ClipInput,
        num_clips: int = 10,
        labels: Sequence[int] | None = None,
    ) -> None:
        self.paths, self.labels = paths, labels
        self.pipeline = clip_pipeline(clip_input, num_clips)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video.

        Returns:
            A dict with the ``index`` and the ``path`` of the video, ``inputs``, (V, C, T, H, W)
            uint8, and ``label``; or, for an unreadable video, ``index``, ``path`` and ``error``,
            the reason in one line.
        """
        path, label = str(self.paths[index]), -1 if self.labels is None else self.labels[index]
        about = dict(index=index, path=path)
        results = dict(filename=path, label=label, start_index=0, modality='RGB')
        try:
            for transform in self.pipeline:
                if reads_files(transform):
                    results = read(transform, results, TIMEOUT_SECONDS)
                else:
                    results = transform(results)
        except Exception as error:  # transforms raise many kinds of errors for unusual frames
            return dict(about, error=getattr(error, 'reason', one_line(error)))
        return dict(about, inputs=results['inputs'], label=label)


class ListClips(Dataset):
    """Clips of the videos of a config's list, as the config's pipeline makes them.

    Args:
        config: Config of the dataset.
        views: Number of runs of the pipeline per video. The draws depend on the index of the video
            and the number of the run alone.
    """

    def __init__(self, config: Mapping[str, Any], views: int = 1) -> None:
        self.dataset, self.views = DATASETS.build(config), views

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video, as :class:`VideoClips` does."""
        about = dict(index=index, path=self.path(index))
        runs = []
        try:
            for view in range(self.views):
                with seeded_draws(0, index, view):
                    runs.append(self.dataset[index])
        except UnreadableVideoError as error:
            return dict(about, error=error.reason)
        label = int(runs[0]['data_samples'].gt_label)
        return dict(about, inputs=torch.cat([run['inputs'] for run in runs]), label=label)

    def path(self, index: int) -> str:
        """Return the path of a video."""
        return str(self.dataset.get_data_info(index)['filename'])


def batches_of(
    videos: Dataset,
    batch_size: int = 2,
    num_workers: int = 0,
    indices: Sequence[int] | None = None,
) -> Iterable[list[dict]]:
    """Return a loader of the videos of a dataset, or of some of them, for :func:`extract`."""
    chosen = videos if indices is None else Subset(videos, indices)
    return DataLoader(chosen, batch_size, num_workers=num_workers, collate_fn=list)


@dataclass
class Features:
    """Features of the N videos that could be read.

    Attributes:
        feats: Features, (N, V, C) for V clips per video.
        labels: Labels, (N,).
        indices: Indices of the videos in their list, (N,).
        errors: Why the other videos could not be read, by index in the list.
    """

    feats: Tensor = field(default_factory=lambda: torch.empty(0, 1, 0))
    labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    indices: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    errors: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of videos, including unreadable ones."""
        return len(self.indices) + len(self.errors)

    @property
    def vectors(self) -> Tensor:
        """The means over the clips, (N, C) float32."""
        return self.feats.float().mean(1)

    def take(self, rows: Tensor) -> 'Features':
        """Return the features of some of the N videos."""
        return Features(self.feats[rows], self.labels[rows], self.indices[rows])


def extract(
    encode: Encode,
    batches: Iterable[list[dict]],
    average: bool = False,
    dtype: torch.dtype = torch.float32,
    check: bool = True,
) -> Iterator[Features]:
    """Compute the features of clips: the one loop.

    Args:
        encode: :meth:`Encoder.features`, or another function of clips.
        batches: Batches of videos as :class:`VideoClips` gives them, such as from
            :func:`batches_of`. The videos of a batch have the same number of clips.
        average: Whether to average over the clips of a video; V is then 1.
        dtype: Data type of the results.
        check: Whether to refuse features that are not finite.

    Yields:
        The features of each batch, on the CPU.

    Raises:
        ValueError: Features are not finite.
    """
    for samples in batches:
        errors = {sample['index']: sample['error'] for sample in samples if 'error' in sample}
        good = [sample for sample in samples if 'error' not in sample]
        if not good:
            yield Features(errors=errors)
            continue
        clips = torch.stack([sample['inputs'] for sample in good])  # (N, V, C, T, H, W)
        feats = encode(clips.flatten(0, 1)).unflatten(0, clips.shape[:2])
        feats = (feats.mean(1, keepdim=True) if average else feats).to(dtype).cpu()
        if check:
            finite(feats, good[0]['path'])
        labels, indices = (torch.tensor([x[key] for x in good]) for key in ('label', 'index'))
        yield Features(feats, labels, indices, errors)


def join_features(parts: Iterable[Features]) -> Features:
    """Concatenate features and sort them by index; of several for one video, keep the first.

    If one process could read a video and another could not, the video has features and no error.
    """
    parts = list(parts)
    read = [part for part in parts if len(part.indices)] or [Features()]
    names = 'feats', 'labels', 'indices'
    feats, labels, indices = (torch.cat([getattr(x, name) for x in read]) for name in names)
    rows = torch.from_numpy(np.unique(indices, return_index=True)[1])
    found = Features(feats, labels, indices).take(rows)
    errors = {i: reason for part in parts for i, reason in part.errors.items()}
    found.errors = {i: errors[i] for i in sorted(errors.keys() - {*found.indices.tolist()})}
    return found


def tracked(
    parts: Iterable[Features], total: int, on_progress: OnProgress, done: int = 0
) -> Iterator[Features]:
    """Yield features, and report the number of videos that are done and the total."""
    on_progress(done, total)
    for part in parts:
        yield part
        done += len(part)
        on_progress(done, total)


def describe_lost(errors: Mapping[str, str]) -> list[str]:
    """Say in a line how many videos are left out and why the first one is; [] if there are none."""
    for name, reason in errors.items():
        return [f'{len(errors)} videos are left out, such as {name}: {reason}']
    return []


def over_time(
    encode: Encode, encoder: Encoder, path: str, every_seconds: float
) -> tuple[Tensor, np.ndarray]:
    """Apply a function to clips at regular times of a video; see :meth:`Encoder.windows`.

    Args:
        encode: :meth:`Encoder.features`, or another function of clips.
        encoder: The encoder whose clips are taken.
        path: Path of the video.
        every_seconds: Distance between the starts of two clips.

    Returns:
        The results, (T, C), on the CPU, and the start and end of each clip in seconds, (T, 2).

    Raises:
        UnreadableVideoError: The video cannot be read, or is shorter than a clip.
        ValueError: Results are not finite.
    """
    found = [
        (finite(encode(clips), path).cpu(), seconds)
        for clips, seconds in encoder.windows(path, every_seconds)
    ]
    if not found:
        raise UnreadableVideoError(path, 'it is shorter than a clip')
    feats, times = zip(*found, strict=True)
    return torch.cat(feats), np.concatenate(times)


def finite(feats: Tensor, name: str) -> Tensor:
    """Return features if all of them are finite.

    Raises:
        ValueError: They are not.
    """
    if not feats.isfinite().all():
        why = 'the training has diverged, or half precision overflows'
        raise ValueError(f'The features of {printable(name)} are not finite: {why}.')
    return feats


class FeatureStore:
    """Features of a list of videos in a folder, see above.

    Args:
        folder: The folder; created if it does not exist.
        about: All that the features depend on (weights, videos, clips), as JSON can represent it.
    """

    def __init__(self, folder: str | Path, about: Mapping[str, Any]) -> None:
        self.folder, self.about = Path(folder), dict(about)

    def fill(
        self,
        encode: Encode,
        videos: Dataset,
        batch_size: int = 2,
        num_workers: int = 0,
        rank: int = 0,
        size: int = 1,
        on_progress: OnProgress = no_progress,
        average: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Compute the features that are missing in this process's share of the videos.

        Args:
            encode: See :func:`extract`.
            videos: ``videos[i]`` is as :class:`VideoClips` gives it.
            batch_size: Number of videos per batch.
            num_workers: Number of processes that load videos.
            rank: Rank of this process; it encodes every ``size``-th video.
            size: Number of processes that share the videos.
            on_progress: Called with the number of finished videos and the number of all videos of
                this process.
            average: See :func:`extract`.
            dtype: See :func:`extract`.

        Raises:
            ValueError: The folder holds other features, or features are not finite.
        """
        num_videos = self.about['num_videos'] = len(videos)  # type: ignore[arg-type]
        claim_folder(self.folder, 'meta.json', self.about)
        finished = {i for part in self._blocks() for i in (*part.indices.tolist(), *part.errors)}
        share = range(rank, num_videos, size)
        left = [i for i in share if i not in finished]
        parts = extract(encode, batches_of(videos, batch_size, num_workers, left), average, dtype)
        block: list[Features] = []
        try:
            for part in tracked(parts, len(share), on_progress, len(share) - len(left)):
                block.append(part)
                if sum(map(len, block)) >= BLOCK_VIDEOS:
                    self._write(block)
                    block.clear()
        finally:  # also after an error, such as a killed worker
            if block:
                self._write(block)

    def load(self) -> Features:
        """Read all features, after :meth:`fill`.

        Raises:
            FileNotFoundError: Features of some videos are missing.
            ValueError: A file is damaged.
        """
        found = join_features(self._blocks())
        if (missing := self.about['num_videos'] - len(found)) > 0:
            raise FileNotFoundError(f'{self.folder} lacks {missing} videos; extract them again.')
        return found

    def _blocks(self) -> Iterator[Features]:
        for path in sorted(self.folder.glob('feats_*.pth')):
            yield Features(**load_checkpoint(path))

    def _write(self, parts: Sequence[Features]) -> None:
        block = join_features(parts)
        first = min([*block.indices.tolist(), *block.errors])
        with replacing(self.folder / f'feats_{first:09d}.pth') as part:
            torch.save(vars(block), part)


def described(encoder: Encoder, **more: Any) -> dict[str, Any]:
    """Return what features of an encoder depend on, for the note of their folder."""
    return dict(
        backbone=encoder.meta.get('backbone'),  # equal weights fit networks of other padding
        weights_sha256=weights_sha256(encoder.backbone),
        clips=encoder.clip_input.to_dict(),
        **more,
    )


def weights_sha256(network: nn.Module) -> str:
    """Return the SHA-256 digest of the names, types, shapes and values of a network's weights."""
    # cloned, because safetensors does not accept tensors that share memory
    state = {k: v.cpu().contiguous().clone() for k, v in network.state_dict().items()}
    return hashlib.sha256(save({k: v for k, v in state.items() if not is_counter(k)})).hexdigest()


def extract_to_file(
    encoder: Encoder,
    paths: Sequence[str],
    out: str | Path,
    num_clips: int = 10,
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
    check_features_path(out)
    about = described(encoder, num_clips=num_clips, files_sha256=files_sha256(paths))
    store = FeatureStore(out.with_name(f'{out.name}.parts'), about)
    videos, part = VideoClips(paths, encoder.clip_input, num_clips), (rank, size, on_progress)
    store.fill(encoder.features, videos, batch_size, num_workers, *part)
    try:
        with locked(store.folder):
            found = store.load()
            if len(found.feats):
                write_features(out, [paths[i] for i in found.indices.tolist()], found.vectors)
            shutil.rmtree(store.folder)
    except (BlockingIOError, FileNotFoundError):  # another process is at work, or has joined
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
    made_from, failed = read_journals(folder / '.finished'), {}
    share = list(zip(paths, names, strict=True))[rank::size]
    with journal(folder / '.finished') as remember:
        for done, (path, name) in enumerate(share):
            on_progress(done, len(share))
            stamp = file_stamp(path)  # before the video is read
            targets = [folder / kind / f'{name}.npy' for kind in ('feats', 'times')]
            if all(is_current(target, stamp, made_from.get(name)) for target in targets):
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


def check_features_path(path: str | Path) -> None:
    """Check that :func:`write_features` can write a file, before the features are computed.

    Raises:
        ImportError: pyarrow, which is needed for ``.parquet``, is not installed.
        ValueError: ``path`` has another suffix, or is a folder or a device.
    """
    path = Path(path)
    if path.suffix not in ('.npz', '.parquet'):
        raise ValueError(f'Features need a file ending in .npz or .parquet, got {path}.')
    check_target(path)
    if path.suffix == '.parquet':
        import pyarrow.parquet  # noqa: F401


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
    check_features_path(path)
    feats = np.ascontiguousarray(feats, np.float32)
    with replacing(path) as part:
        if part.suffix == '.npz':
            np.savez(part, names=np.array(names), feats=feats)
            return
        import pyarrow as pa
        from pyarrow import parquet

        column = pa.FixedSizeListArray.from_arrays(pa.array(feats.ravel()), feats.shape[1])
        parquet.write_table(pa.table({'name': list(names), 'feat': column}), part)
