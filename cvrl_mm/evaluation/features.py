"""Features of videos from frozen networks: how they are computed, stored and written to files.

:class:`FeatureStore` is the one loop over many videos. It keeps what is computed in a folder, which
several processes can fill and an interrupted job continues::

    meta.json                what the features depend on, and the number of videos
    feats_000000000.npz      a block of n videos: feats.NAME (n, V, C) for each encoder,
    feats_000000064.npz ...  indices (n,), labels (n,), errors; named by its first video
"""

import copy
import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from mmaction.models import BaseRecognizer
from mmaction.registry import DATASETS, MODELS
from mmengine.config import Config, ConfigDict
from mmengine.dataset import BaseDataset
from mmengine.dist import barrier, get_rank, get_world_size, is_main_process
from mmengine.logging import print_log
from mmengine.registry import init_default_scope
from mmengine.runner import set_random_seed
from safetensors.torch import save
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from ..convert.description import ClipInput, load_backbone
from ..convert.export import extract_backbone
from ..convert.files import locate_weights
from ..datasets.lists import video_list
from ..datasets.seeding import seeded_draws
from ..io import (
    check_target,
    files_sha256,
    is_utf8,
    printable,
    progress,
    read_json,
    replacing,
)
from ..models.backbone import global_average_pool
from ..models.weights import is_counter

UNTRAINED = 'untrained'  # instead of a checkpoint: random weights with the config's seed
BLOCK_VIDEOS = 64  # per file of the store, rounded up to whole batches: what a kill may cost
Encode = Callable[[Tensor], Mapping[str, Tensor]]


def build_recognizer(config: Config, checkpoint: str | Path | None = None) -> BaseRecognizer:
    """Build the recognizer of a config, with a trained backbone or as at the start of training.

    Args:
        config: Config with ``model`` and, for untrained weights, ``randomness.seed``.
        checkpoint: A checkpoint, as for :func:`load_encoder`, whose ``backbone.…`` weights replace
            those of the config's ``init_cfg``, or ``'untrained'`` for random weights. All other
            weights are initialised randomly.

    Returns:
        The recognizer on the CPU.

    Raises:
        CheckpointMisfitError: The checkpoint does not fit the backbone.
        OSError, ValueError: See :func:`load_encoder`.
    """
    init_default_scope(config.get('default_scope', 'mmaction'))
    set_random_seed(config.get('randomness', {}).get('seed'))
    parts = copy.deepcopy(config.model)
    if 'data_preprocessor' in config:  # as mmengine's runner does
        parts.setdefault('data_preprocessor', config.data_preprocessor)
    weights = None
    if checkpoint is not None:
        # read before the network is built, so that a wrong file is reported immediately
        if str(checkpoint) != UNTRAINED:
            weights = extract_backbone(locate_weights(checkpoint))
        for key in ('init_cfg', 'pretrained'):
            if key in parts.backbone:
                parts.backbone[key] = None
    model = MODELS.build(parts)
    model.init_weights()
    if weights is not None:
        load_backbone(model.backbone, weights, str(checkpoint))
        _compare_clips(config, weights['meta'].get('input'), str(checkpoint))
    return model


def _compare_clips(config: Config, described: dict | None, checkpoint: str) -> None:
    """Warn if the config samples other clips than those for which the encoder was trained.

    Longer and larger clips are not reported, as the paper trains on 16 frames of 224x224 and
    evaluates on 32 frames of 256x256 (Section 4.1).
    """
    if described is None:
        return
    trained, given = ClipInput.from_dict(described), ClipInput.from_config(config)
    equal = ('frame_interval', 'mean', 'std', *(['fps'] if trained.fps else []))
    pairs = {n: (getattr(trained, n), getattr(given, n) or 0) for n in equal}
    differing = [n for n, pair in pairs.items() if not np.allclose(*pair, 1e-3)]
    differing += [n for n in ('clip_len', 'size') if getattr(given, n) < getattr(trained, n)]
    changes = [f'{name}={getattr(given, name)}, not {getattr(trained, name)}' for name in differing]
    if changes:
        print_log(
            f'The config samples other clips than those that {checkpoint} was trained on: '
            f'{"; ".join(changes)}. The features may be worse; adapt the pipelines of the config.',
            logger='current',
            level=logging.WARNING,
        )


def extract_features(model: BaseRecognizer, batches: Iterable[dict]) -> tuple[Tensor, Tensor]:
    """Compute the backbone's pooled features, averaged over the clips of each video.

    Args:
        model: A recognizer; it is run in evaluation mode.
        batches: Batches of a data loader, with any number of clips per video.

    Returns:
        Features, (N, C) float32, and labels, (N,), both on the CPU and in the order of the videos.
    """
    was_training = model.training
    model.eval()
    feats, labels = [], []
    for batch in batches:
        feats.append(encode_clips(model, batch['inputs']).mean(1).cpu())
        labels += [int(sample.gt_label) for sample in batch['data_samples']]
    model.train(was_training)
    return torch.cat(feats), torch.tensor(labels)


@torch.no_grad()
def encode_clips(model: BaseRecognizer, clips: Tensor | Sequence[Tensor]) -> Tensor:
    """Compute the backbone's pooled features of clips.

    Args:
        model: A recognizer; its mode is not changed.
        clips: N videos of V clips, (N, V, C, T, H, W), or a sequence of N tensors.

    Returns:
        Features, (N, V, C') float32 on the model's device.
    """
    data = dict(inputs=list(clips), data_samples=None)
    inputs = model.data_preprocessor(data, training=False)['inputs']  # (N, V, C, T, H, W)
    feats, _ = model.extract_feat(inputs, stage='backbone')  # (N * V, C', T', H', W')
    return global_average_pool(feats).float().unflatten(0, inputs.shape[:2])


@dataclass
class Features:
    """Features of the N videos that could be read, in the order of the dataset.

    Attributes:
        feats: Features by name of the encoder, (N, V, C) for V clips per video.
        indices: Indices of the videos in the dataset, (N,).
        labels: Labels, (N,).
        errors: Why the other videos could not be read, by index in the dataset.
    """

    feats: dict[str, Tensor]
    indices: Tensor
    labels: Tensor
    errors: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.indices) + len(self.errors)


def join_features(parts: Iterable[Features]) -> Features:
    """Concatenate features and sort them by index; of several for one video, keep the first.

    A video that one of two processes could not read has features, and no error.
    """
    parts = list(parts)
    read = [part for part in parts if len(part.indices)]
    errors = {i: reason for part in parts for i, reason in part.errors.items()}
    if not read:
        return Features({}, torch.empty(0).long(), torch.empty(0).long(), errors)
    indices = torch.cat([part.indices for part in read])
    places = torch.from_numpy(np.unique(indices.numpy(), return_index=True)[1])
    feats = {name: torch.cat([part.feats[name] for part in read]) for name in read[0].feats}
    labels = torch.cat([part.labels for part in read])
    feats = {name: x[places] for name, x in feats.items()}
    indices = indices[places]
    errors = {i: errors[i] for i in sorted(errors.keys() - set(indices.tolist()))}
    return Features(feats, indices, labels[places], errors)


class FeatureStore:
    """Features of a list of videos in a folder, see above.

    Args:
        folder: The folder; created if it does not exist.
        meta: All that the features depend on (weights, videos, clips), as JSON can represent it.
    """

    def __init__(self, folder: str | Path, meta: Mapping[str, Any]) -> None:
        self.folder, self.note = Path(folder), Path(folder, 'meta.json')
        self.meta: dict = json.loads(json.dumps(meta))  # in the form in which it is read back

    def fill(
        self,
        dataset: Dataset,
        encode: Encode,
        batch_size: int,
        num_workers: int,
        rank: int = 0,
        size: int = 1,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Compute the features that are missing in this process's share of the videos.

        Args:
            dataset: ``dataset[i]`` is a dict with ``inputs``, (V, C, T, H, W), and
                ``data_samples`` with ``gt_label``; or with ``error``, why the video cannot be read.
            encode: Computes the features of clips, (N, V, C, T, H, W), by name of the encoder,
                (N, V, C'), or (N, 1, C') if it averages over the clips.
            batch_size: Number of videos per batch.
            num_workers: Number of processes that load videos.
            rank: Rank of this process; it encodes every ``size``-th video.
            size: Number of processes that share the videos.
            on_progress: Called with the number of finished videos and the number of all videos of
                this process.

        Raises:
            ValueError: The folder holds other features, or features are not finite.
        """
        num_videos = self.meta['num_videos'] = len(dataset)  # type: ignore[arg-type]
        if not self.note.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.note) as note:
                note.write_text(json.dumps(self.meta))
        self._compare()
        parts, share = map(_read, self._blocks()), range(rank, num_videos, size)
        finished = {i for part in parts for i in (*part.indices.tolist(), *part.errors)}
        left = [i for i in share if i not in finished]
        done = len(share) - len(left)
        on_progress(done, len(share))
        block: list[Features] = []
        try:
            for part in _encode(dataset, left, encode, batch_size, num_workers):
                block.append(part)
                done += len(part)
                on_progress(done, len(share))
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
            ValueError: The folder holds other features, or a file is damaged.
        """
        self._compare()
        found = join_features(map(_read, self._blocks()))
        if (missing := self.meta['num_videos'] - len(found)) > 0:
            raise FileNotFoundError(
                f'{self.folder} lacks the features of {missing} videos; run the extraction again, '
                'which computes only these.'
            )
        return found

    def remove(self) -> None:
        """Remove the folder; a removal that is interrupted leaves no features without meta.json."""
        for path in self._blocks():
            path.unlink()
        shutil.rmtree(self.folder)

    def _compare(self) -> None:
        """Refuse the folder if its features depend on other things than the wanted ones."""
        written = read_json(self.note)
        if differing := [k for k in written | self.meta if written.get(k) != self.meta.get(k)]:
            raise ValueError(
                f'{self.folder} holds features with other {", ".join(differing)}; finish that run, '
                'remove the folder, or choose another output.'
            )

    def _blocks(self) -> list[Path]:
        return sorted(self.folder.glob('feats_*.npz'))

    def _write(self, parts: Sequence[Features]) -> None:
        block = join_features(parts)
        arrays: dict[str, Any] = {f'feats.{name}': x.numpy() for name, x in block.feats.items()}
        arrays |= dict(indices=block.indices.numpy(), labels=block.labels.numpy())
        first = min([*block.indices.tolist(), *block.errors])
        with replacing(self.folder / f'feats_{first:09d}.npz') as part:
            np.savez(part, errors=np.array(json.dumps(block.errors)), **arrays)


def _encode(
    dataset: Dataset, indices: Sequence[int], encode: Encode, batch_size: int, num_workers: int
) -> Iterator[Features]:
    """Encode some videos of a dataset; yield the features of each batch."""
    loader = DataLoader(
        Subset(dataset, indices), batch_size, num_workers=num_workers, collate_fn=list
    )
    places = iter(indices)
    for samples in loader:
        numbered = [(next(places), sample) for sample in samples]
        read = {i: sample for i, sample in numbered if 'error' not in sample}
        labels = [int(sample['data_samples'].gt_label) for sample in read.values()]
        feats: Mapping[str, Tensor] = {}
        if read:
            feats = encode(torch.stack([sample['inputs'] for sample in read.values()]))
        yield Features(
            {name: finite(x, name).cpu() for name, x in feats.items()},
            torch.tensor(list(read), dtype=torch.long),
            torch.tensor(labels, dtype=torch.long),
            {i: sample['error'] for i, sample in numbered if 'error' in sample},
        )


def finite(feats: Tensor, name: str) -> Tensor:
    """Return features if all of them are finite.

    Raises:
        ValueError: They are not.
    """
    if not feats.isfinite().all():
        raise ValueError(
            f'The features of {name} are not finite. If the training has diverged, use an earlier '
            'checkpoint, or train anew with a lower learning rate. Half precision can overflow.'
        )
    return feats


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read a file of ``np.savez``, which may come from elsewhere, into memory of about its size.

    Raises:
        ValueError: The file is compressed or claims more than it holds, or has Python objects.
        BadZipFile, EOFError, MemoryError: The file is damaged.
    """
    with ZipFile(path) as archive:
        size = Path(path).stat().st_size
        if sum(item.file_size for item in archive.infolist()) > size:
            raise ValueError('it is compressed, or claims more than it holds')
    with np.load(path, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data}
    if any(x.size > size for x in arrays.values()):  # of items without a size
        raise ValueError('it claims more than it holds')
    return arrays


def _read(path: Path) -> Features:
    """Read a file of the store."""
    try:
        arrays = read_arrays(path)
        errors = {int(i): str(why) for i, why in json.loads(str(arrays.pop('errors'))).items()}
        tensors = {name: torch.from_numpy(x) for name, x in arrays.items()}
        indices, labels = tensors.pop('indices'), tensors.pop('labels')
        if any(len(x) != len(indices) for x in (labels, *tensors.values())):
            raise ValueError('its arrays are of different numbers of videos')
    except (ValueError, TypeError, KeyError, EOFError, BadZipFile, MemoryError) as error:
        raise ValueError(f'{path} is damaged ({error}); remove it and run again.') from error
    feats = {name.removeprefix('feats.'): x for name, x in tensors.items()}
    return Features(feats, indices, labels, errors)


class _SeededViews(Dataset):
    """Run the pipeline of a dataset several times over each video, with reproducible draws."""

    def __init__(self, dataset: BaseDataset, views: int) -> None:
        self.dataset, self.views = dataset, views

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict:
        runs = []
        for view in range(self.views):
            with seeded_draws(0, index, view):
                runs.append(self.dataset[index])
        return {**runs[0], 'inputs': torch.cat([run['inputs'] for run in runs])}


def list_features(
    model: BaseRecognizer,
    cfg: Config,
    loader: ConfigDict,
    folder: Path,
    views: int = 1,
    average: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute the features of a data loader's list, or read them from a store.

    All ranks must call this function: each one encodes its share, and all read all features.

    Args:
        model: A recognizer on its device, in evaluation mode.
        cfg: The config of the recognizer.
        loader: Config of a data loader.
        folder: Folder of the :class:`FeatureStore`.
        views: Number of runs of the pipeline per video.
        average: Whether to store the mean over the clips of a video instead of each clip.

    Returns:
        Features, (N, V, C) float16, and labels, (N,), on the model's device.

    Raises:
        ValueError: The folder holds other features.
    """
    data = loader.dataset
    backbone = {k: v for k, v in cfg.model.backbone.items() if k not in ('init_cfg', 'pretrained')}
    meta = dict(
        backbone=backbone,
        weights_sha256=weights_sha256(model.backbone),
        data_preprocessor=cfg.model.data_preprocessor,
        list_sha256=hashlib.sha256(Path(data.ann_file).read_bytes()).hexdigest(),
        files_sha256=files_sha256(video['filename'] for video in video_list(data)),
        pipeline=data.pipeline,
        views=views,
        average=average,
    )
    videos, how = _SeededViews(DATASETS.build(data), views), (loader.batch_size, loader.num_workers)
    store = FeatureStore(folder, meta)

    def encode(clips: Tensor) -> dict[str, Tensor]:
        feats = encode_clips(model, clips)
        return dict(backbone=(feats.mean(1, keepdim=True) if average else feats).half())

    with progress(f'Features of {data.ann_file}', disable=not is_main_process()) as on_progress:
        store.fill(videos, encode, *how, get_rank(), get_world_size(), on_progress)
    barrier()
    found, device = store.load(), next(model.parameters()).device
    return found.feats['backbone'].to(device), found.labels.to(device)


def weights_sha256(network: nn.Module) -> str:
    """Return the SHA-256 digest of the names, types, shapes and values of a network's weights."""
    # cloned, because safetensors does not accept tensors that share memory
    state = {k: v.cpu().contiguous().clone() for k, v in network.state_dict().items()}
    return hashlib.sha256(save({k: v for k, v in state.items() if not is_counter(k)})).hexdigest()


def check_features_path(path: str | Path, names: Iterable[str] = ()) -> None:
    """Check that :func:`write_features` can write a file, before the features are computed.

    Raises:
        ImportError: pyarrow, which is needed for ``.parquet``, is not installed.
        ValueError: ``path`` has another suffix or is a folder or a device, or a name is not UTF-8,
            which Parquet files need.
    """
    path = Path(path)
    if path.suffix not in ('.npz', '.parquet'):
        raise ValueError(f'Features need a file ending in .npz or .parquet, got {path}.')
    check_target(path)
    if path.suffix == '.parquet':
        import pyarrow.parquet  # noqa: F401

        if bad := next((name for name in names if not is_utf8(name)), None):
            raise ValueError(
                f'The name {printable(bad)} is not UTF-8, which Parquet files need; rename the '
                'file, or write a .npz file.'
            )


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
