"""The model index names every config, and says of it what it says itself."""

from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.fileio import load

ROOT = Path(__file__).parents[1]
METAFILES = load(ROOT / 'model-index.yml')['Import']
LISTED = [(name, model) for name in METAFILES for model in load(ROOT / name)['Models']]


def test_every_metafile_is_imported():
    assert sorted(METAFILES) == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / 'configs').rglob('metafile.yml')
    )


def test_every_config_is_listed_once():
    """A new config goes into the metafile of its folder."""
    leaves = (path for path in (ROOT / 'configs').rglob('*.py') if '_base_' not in path.parts)
    assert sorted(model['Config'] for _, model in LISTED) == sorted(
        str(path.relative_to(ROOT)) for path in leaves
    )


@pytest.mark.parametrize(('metafile', 'model'), LISTED, ids=[m['Name'] for _, m in LISTED])
def test_metadata_are_those_of_the_config(metafile: str, model: dict):
    path = ROOT / model['Config']
    assert path.stem == model['Name']  # mim finds a config by its name
    assert path.parent == (ROOT / metafile).parent
    collections = [collection['Name'] for collection in load(ROOT / metafile)['Collections']]
    assert model['In Collection'] in collections
    cfg, said = Config.fromfile(path), model['Metadata']
    assert said.get('Epochs') == cfg.train_cfg.get('max_epochs')
    assert said.get('Batch Size') == cfg.get('auto_scale_lr', {}).get('base_batch_size')
    depth, _, width = said['Architecture'].partition('-')[2].partition(' ')
    assert int(depth) == cfg.model.backbone.depth
    assert float(width.rstrip('x') or 1) == cfg.model.backbone.get('width', 1)
