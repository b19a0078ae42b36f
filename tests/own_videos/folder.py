"""A finished training of own videos, made by hand."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.models import R3DSlow
from cvrl_mm.options import Options
from tests.videos import encode

BACKBONE = dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=(1, 1, 1, 1))
CHANNELS = 64


def small_encoder(seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    backbone = R3DSlow(**{k: v for k, v in BACKBONE.items() if k != 'type'})
    backbone.init_weights()
    return Encoder(backbone, ClipInput(4, 1, 32), dict(backbone=BACKBONE)).eval()


def write_folder(folder: Path, names: list[str], classes: list[str], held_out: int = 2) -> Path:
    """Write videos, features near their class's axis, lists, inputs and encoder."""
    root, out = folder / 'videos', folder / 'out'
    (out / 'lists').mkdir(parents=True)
    labels = [classes.index(name.split('/')[0]) if classes else -1 for name in names]
    rng = np.random.default_rng(0)
    feats = 0.02 * rng.standard_normal((len(names), CHANNELS)).astype(np.float32)
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        encode(root / name, num_frames=5 + i)
        feats[i, labels[i]] += 1
    before = rng.standard_normal(feats.shape).astype(np.float32)
    np.savez(out / 'features.npz', names=names, feats=feats, feats_before=before)
    lines = [f'{name} {label}\n' for name, label in zip(names, labels, strict=True)]
    (out / 'lists/all.txt').write_text(''.join(lines))
    (out / 'lists/train.txt').write_text(''.join(f'{name} 0\n' for name in names[held_out:]))
    (out / 'lists/classes.txt').write_text(''.join(f'{name}\n' for name in classes))
    (out / 'inputs.json').write_text(json.dumps(dict(videos=dict(video=str(root)))))
    command = dict(asdict(Options()), videos=[str(root)])
    (out / 'command.json').write_text(json.dumps(command))
    small_encoder().save(out / 'encoder.safetensors')
    return out
