"""Features of videos from frozen encoders: the loop that computes them, and their store.

:func:`extract` is the one loop over clips. What it yields is used at once, or kept in a
:class:`FeatureStore`, a folder that several processes can fill and an interrupted job continues::

    meta.json                what the features depend on
    feats_000000000.pth      the fields of :class:`Features` of a block of videos, a file of torch
    feats_000000064.pth ...  that is named by the first one
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..datasets.reader import UnreadableVideoError
from ..encoder.encoder import Encoder
from ..io import claim_folder, replacing
from ..models.weights import is_counter, load_checkpoint
from ..text import printable
from .clips import batches_of

BLOCK_VIDEOS = 64  # per file of the store, rounded up to whole batches: what a kill may cost
Encode = Callable[[Tensor], Tensor]  # clips, (M, C, T, H, W), to features, (M, D)
OnProgress = Callable[[int, int], None]  # takes the number of finished videos and of all videos


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


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
