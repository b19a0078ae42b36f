"""Configs of each kind train two steps, validate and test; the networks of all are built."""

import inspect
from functools import cache
from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import ConfigDict
from mmengine.runner import Runner

from tests.configs.parsed import LEAVES, load
from tests.configs.small import make_thin, nodes, run_two_steps
from tools.data.make_synthetic_ava import write_synthetic_ava

READ = {*inspect.signature(Runner).parameters, 'sync_bn', 'auto_scale_lr', 'feature_pipeline'}
SIZES = ('width', 'depth', 'recompute')  # of the network, which is made thin


@pytest.fixture(scope='module')
def data(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Movies in AVA's format, and lists of four of the motion videos."""
    root = tmp_path_factory.mktemp('data')
    write_synthetic_ava(root, num_train=2, num_val=1)
    for split, source in (('train', 'train'), ('val', 'test')):
        lines = (motion_set / f'{source}.txt').read_text().splitlines()[:4]
        (root / f'{split}.txt').write_text('\n'.join(f'{motion_set}/{line}' for line in lines))
        csv = root / f'annotations/{split}.csv'
        csv.write_text('\n'.join(csv.read_text().splitlines()[:8]))  # four key frames
    return root


def kind(part: object) -> object:
    """What two configs have in common that differ in numbers and paths alone."""
    if isinstance(part, dict):
        return tuple(sorted((k, kind(x)) for k, x in part.items() if k not in SIZES))
    if isinstance(part, (list, tuple)):
        return tuple(map(kind, part))
    is_value = isinstance(part, str) and ('/' in part or '.' in part)
    is_value |= isinstance(part, (int, float)) and not isinstance(part, bool)
    return type(part).__name__ if is_value else str(part)


@cache
def one_of_each_kind() -> set[Path]:
    """The first config of each kind; other names are parts that these are put together from."""
    kinds: dict[object, Path] = {}
    for path in LEAVES:
        read = {k: part for k, part in load(path)._cfg_dict.items() if k in READ}
        kinds.setdefault(kind(read), path)
    return set(kinds.values())


@pytest.mark.parametrize('path', LEAVES, ids=lambda path: path.stem)
def test_a_config_trains_validates_and_tests(path: Path, data: Path, tmp_path: Path, request):
    cfg = load(path)
    if path not in one_of_each_kind() and not request.config.getoption('keyword'):  # -k
        make_thin(cfg.model, tmp_path / 'start.pth')
        with torch.device('meta'):
            MODELS.build(cfg.model)
        for node in nodes(cfg._cfg_dict):
            for step in node.get('pipeline', []):
                TRANSFORMS.build(step)
        return
    for node in nodes(cfg._cfg_dict):
        use_data(node, data)
    run_two_steps(cfg, tmp_path)
    if (tmp_path / 'start.pth').exists():
        (last,) = tmp_path.glob('*_[12].pth')
        start, trained = (torch.load(p)['state_dict'] for p in (tmp_path / 'start.pth', last))
        moved = [key for key, value in start.items() if not torch.equal(value, trained[key])]
        frozen = cfg.model.backbone.get('frozen_stages') == 4
        assert not moved if frozen else len(moved) > len(start) / 2


def use_data(node: ConfigDict, data: Path) -> None:
    """Read the generated videos."""
    kind = str(node.get('type'))
    split = 'val' if node.get('test_mode') or kind.endswith('Metric') else 'train'
    if kind == 'VideoListDataset':
        node.update(ann_file=str(data / f'{split}.txt'), data_prefix=dict(video='/'))
    elif 'AVAKeyframe' in kind:
        folder = data / 'annotations'
        node.update(ann_file=str(folder / f'{split}.csv'), exclude_file=None)
        node.label_file = str(folder / 'actions.pbtxt')
    if kind == 'AVAKeyframeDataset':
        source = 'rawframes' if node.get('use_frames', True) else 'videos'
        node.update(data_prefix=dict(img=str(data / source)), timestamp_start=900)
        if node.get('proposal_file'):
            node.proposal_file = str(folder / f'{split}_proposals.pkl')
        if node.get('key_seconds'):
            node.key_seconds = (901, 902)
