"""Compute the features of all videos with several encoders; each video is decoded once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor
from torch.utils.data import DataLoader

from ..convert.clip_input import ClipInput
from ..convert.description import architecture_of
from ..evaluation import features
from ..evaluation.encoder import Encoder, VideoClips, load_encoder
from ..evaluation.features import build_recognizer
from ..io import printable
from .network import Network

NUM_CLIPS = 4  # per video, evenly spaced
BATCH_VIDEOS = 4


def copy_start(checkpoint: str, path: Path) -> Network:
    """Copy the weights of ``--init`` to the path that the config uses.

    Args:
        checkpoint: Any argument of ``cvrl_mm.load_encoder``.
        path: Path of the copy, a ``.pth`` file.

    Returns:
        The architecture and normalisation of the encoder.

    Raises:
        OSError: The file does not exist.
        ValueError: The file does not describe its architecture, or cannot be used.
    """
    encoder = load_encoder(checkpoint)
    encoder.save(path)
    backbone = dict(encoder.meta['backbone'])
    clip = torch.zeros(1, 3, 8, 64, 64, dtype=torch.uint8)
    channels = encoder.features(clip).shape[1]
    size = 224 if backbone.get('depth', 50) >= 50 else 112
    given, default = encoder.clip_input, ClipInput()
    scale = {k: list(getattr(given, k)) for k in ('mean', 'std')}
    same = (given.mean, given.std) == (default.mean, default.std)
    return Network(backbone, channels, size, {} if same else scale)


def starting_encoder(config: Config) -> Encoder:
    """Build the encoder before training, with random weights or those of ``--init``.

    Args:
        config: Config of the training.
    """
    model = build_recognizer(config)
    meta = dict(backbone=architecture_of(config.model.backbone.to_dict()))
    return Encoder(model.backbone, ClipInput.from_config(config), meta).eval()


@torch.inference_mode()
def encode(
    encoders: Mapping[str, Encoder],
    root: Path,
    names: Sequence[str],
    num_workers: int,
    device: str,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Tensor], list[str], dict[str, str]]:
    """Compute the features of all videos.

    Args:
        encoders: Encoders by name; all take the same clips.
        root: The folder to which the names are relative.
        names: Names of the videos.
        num_workers: Number of decoding processes.
        device: Device of the computation.
        on_progress: Called with the number of finished videos and the number of all videos.

    Returns:
        Three values: features by name of the encoder, (V, 4, C) float32 on the CPU; the names of
        the V videos that could be read; and the unreadable videos, as ``{name: reason}``.

    Raises:
        ValueError: No video can be read, or features are not finite.
    """
    clip_input = next(iter(encoders.values())).clip_input
    clips = VideoClips([str(root / name) for name in names], clip_input, NUM_CLIPS)
    loader = DataLoader(clips, BATCH_VIDEOS, num_workers=num_workers, collate_fn=list)
    for encoder in encoders.values():
        encoder.to(device)
    feats: dict[str, list[Tensor]] = {name: [] for name in encoders}
    done = 0
    read: list[str] = []
    failed: dict[str, str] = {}
    for samples in loader:
        failed |= {names[s['index']]: s['error'] for s in samples if 'error' in s}
        readable = [s for s in samples if 'inputs' in s]
        if readable:
            batch = torch.cat([s['inputs'] for s in readable])
            for name, encoder in encoders.items():
                feats[name].append(encoder.features(batch).cpu().unflatten(0, (-1, NUM_CLIPS)))
            read += [names[int(s['data_samples'].gt_label)] for s in readable]
        done += len(samples)
        on_progress(done, len(names))
    if not read:
        first = printable(str(root / names[0]))
        raise ValueError(
            f'None of the {len(names)} videos can be read; the first one is {first}: '
            f'{failed[names[0]]}.'
        )
    joined = {name: torch.cat(parts) for name, parts in feats.items()}
    for name, x in joined.items():
        broken = (~x.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
        if broken:
            raise ValueError(
                f'The features of {len(broken)} of {len(read)} videos, such as '
                f'{printable(read[broken[0]])}, are not finite with the encoder {name!r}. If its '
                'training has diverged, train anew with a lower learning rate.'
            )
    return joined, read, failed


def write_features(folder: Path, names: Sequence[str], feats: np.ndarray) -> list[Path]:
    """Write one vector per video to ``features.npz``, and ``.parquet`` where pyarrow is installed.

    Args:
        folder: Output folder.
        names: Names of the videos, (V,).
        feats: Features, (V, C) float32.

    Returns:
        Paths of the files.
    """
    paths = [folder / 'features.npz', folder / 'features.parquet']
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        paths.pop()
    for path in paths:
        features.write_features(path, names, feats)
    return paths
