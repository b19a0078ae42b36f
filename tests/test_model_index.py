"""The model index names configs that exist and says of them what they say themselves."""

import re
from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.fileio import load

ROOT = Path(__file__).parents[1]
METAFILES = load(ROOT / 'model-index.yml')['Import']
LISTED = [(name, model) for name in METAFILES for model in load(ROOT / name)['Models']]


def test_every_metafile_is_imported():
    assert sorted(METAFILES) == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / 'configs').rglob('metafile.yml')
    )


@pytest.mark.parametrize(('metafile', 'model'), LISTED, ids=[m['Name'] for _, m in LISTED])
def test_metadata_are_those_of_the_config(metafile: str, model: dict):
    path = ROOT / model['Config']
    assert path.stem == model['Name']  # mim finds a config by its name
    assert path.parent == (ROOT / metafile).parent
    collections = [collection['Name'] for collection in load(ROOT / metafile)['Collections']]
    assert model['In Collection'] in collections
    cfg, said = Config.fromfile(path), model['Metadata']
    assert said['Epochs'] == cfg.train_cfg.max_epochs
    assert said['Batch Size'] == cfg.auto_scale_lr.base_batch_size
    assert re.match(r'R3D-(\d+)', said['Architecture'])[1] == str(cfg.model.backbone.depth)
    if 'Parameters' in said:
        with torch.device('meta'):
            backbone = MODELS.build(cfg.model.backbone)
        count = sum(p.numel() for p in backbone.parameters()) / 1e6
        assert float(said['Parameters'].rstrip('M')) == pytest.approx(count, abs=0.1)
