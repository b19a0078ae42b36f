"""Every config trains two steps, validates and tests, on tiny data with a thin network."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import ConfigDict
from mmengine.runner import Runner

from cvrl_mm.synthetic.ava_movies import write_synthetic_ava
from tests.configs.parsed import LEAVES, load

AT_MOST = dict(clip_len=4, frame_interval=2, num_clips=2, num_workers=0, batch_size=2, timeout=0)
PIXELS = ('scale', 'crop_size', 'size', 'scale_range')
METRICS = dict(AccMetric='acc/top1', AVAKeyframeMetric='mAP/overall')
CHANNELS = ('hidden_channels', 'out_channels', 'feat_channels')


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


@pytest.mark.parametrize('path', LEAVES, ids=lambda path: path.stem)
def test_a_config_trains_validates_and_tests(path: Path, data: Path, tmp_path: Path):
    cfg = load(path)
    for node in nodes(cfg._cfg_dict):
        make_small(node)
        use_data(node, data)
    make_thin(cfg.model, tmp_path / 'start.pth')
    length = 'max_epochs' if 'max_epochs' in cfg.train_cfg else 'max_iters'
    cfg.train_cfg[length] = 1 if length == 'max_epochs' else 2
    if 'val_cfg' in cfg:
        cfg.train_cfg.val_interval = cfg.train_cfg[length]
    if 'auto_scale_lr' in cfg:
        cfg.auto_scale_lr.enable = True
    cfg.update(work_dir=str(tmp_path), experiment_name=uuid4().hex, log_level='WARNING')

    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.iter == 2
    logged = {k: float(v.current()) for k, v in runner.message_hub.log_scalars.items()}
    assert all(isfinite(value) for key, value in logged.items() if key.startswith('train/'))
    if 'val_cfg' in cfg:
        assert 0 <= logged[f'val/{METRICS[cfg.val_evaluator.type]}'] <= 1
    if 'test_cfg' in cfg:
        assert 0 <= runner.test()[METRICS[cfg.test_evaluator.type]] <= 1


def nodes(value: object) -> Iterator[ConfigDict]:
    """Every dictionary within a config."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for part in value if isinstance(value, (list, tuple)) else ():
        yield from nodes(part)


def make_small(node: ConfigDict) -> None:
    """Clips of 4 frames of 32x32, and batches of two in this process."""
    node.update({key: min(node[key], most) for key, most in AT_MOST.items() if key in node})
    if 'persistent_workers' in node:
        node.persistent_workers = False
    for key in PIXELS:
        if isinstance(value := node.get(key), int):
            node[key] = max(32, value // 8)
        elif isinstance(value, (list, tuple)):
            node[key] = tuple(max(32, x // 8) if x > 0 else x for x in value)


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


def make_thin(model: ConfigDict, start: Path) -> None:
    """An eighth of the width, and initial weights where the config has some."""
    init_cfg = model.backbone.pop('init_cfg', None)
    model.backbone.width = 0.125
    backbone = MODELS.build(model.backbone)
    if init_cfg:
        state = {f'backbone.{key}': value for key, value in backbone.state_dict().items()}
        torch.save(dict(state_dict=state), start)
        model.backbone.init_cfg = dict(init_cfg, checkpoint=str(start))
    for node in nodes(model):
        node.update({key: 16 for key in CHANNELS if key in node})
        if 'in_channels' in node:
            node.in_channels = backbone.out_channels
