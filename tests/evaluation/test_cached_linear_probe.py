import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from mmaction.utils import register_all_modules
from mmengine.config import Config

from cvrl_mm.evaluation.cached_linear_probe import _schedule, cached_linear_probe
from cvrl_mm.evaluation.retrieval import retrieval
from cvrl_mm.models.weights import CheckpointMisfitError
from tests.ranks import run_ranks
from tests.tiny import linear_config


def both(motion_set: str, lists: str, checkpoint: str, out: str) -> tuple[dict, dict]:
    register_all_modules()
    probe = cached_linear_probe(
        linear_config(motion_set, lists), checkpoint, Path(out), lrs=[0.1, 32.0, 64.0]
    )
    return probe, retrieval(linear_config(motion_set, lists), checkpoint, Path(out))


def test_probe_and_retrieval_of_one_process_and_of_two(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    given = str(motion_set), str(lists), checkpoint
    probe, neighbours = both(*given, str(tmp_path / 'one'))
    assert probe['protocol'].startswith('cached: 2 fixed views')
    assert '6 views of each test video; not the online protocol' in probe['protocol']
    assert 0 <= probe['train']['top1'] <= probe['train']['top5'] <= 1
    assert 0 <= probe['val']['top1'] <= probe['val']['top5'] <= 1
    assert len(probe['candidates']) == 9
    assert json.loads((tmp_path / 'one' / 'cached_probe.json').read_text()) == probe
    assert json.loads((tmp_path / 'one' / 'retrieval.json').read_text()) == neighbours
    assert np.load(tmp_path / 'one/train/feats_00000.npy').shape == (32, 2, 64)

    of_ranks = run_ranks(both, 2, tmp_path, *given, str(tmp_path / 'two'))
    assert of_ranks == [(probe, neighbours)] * 2


@pytest.mark.parametrize(
    ('scheduler', 'warmup_epochs'),
    [
        (dict(end=5), 5),
        (dict(end=5, by_epoch=True, convert_to_iter_based=True), 5),
        (dict(end=25, by_epoch=False), 2.5),
    ],
)
def test_a_warmup_in_steps_is_converted_to_epochs(scheduler: dict, warmup_epochs: float):
    cfg = linear_config('', '')
    cfg.auto_scale_lr.base_batch_size = 32
    cfg.param_scheduler = [dict(type='LinearLR', **scheduler), dict(type='CosineAnnealingLR')]
    assert _schedule(cfg, 10 * 32 + 31).warmup_epochs == warmup_epochs


def test_labels_beyond_the_classes_are_refused(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    cfg = linear_config(str(motion_set), str(lists))
    cfg.model.cls_head.num_classes = 15
    with pytest.raises(ValueError, match=r'line \d+: .* has the label 15; num_classes=15'):
        cached_linear_probe(cfg, checkpoint, tmp_path)
    assert not list(tmp_path.iterdir())  # found before anything is encoded


def test_one_class_is_refused(lists: Path, checkpoint: str, tmp_path: Path):
    (tmp_path / 'train.txt').write_text('a.mp4 3\nb.mp4 3\n')
    (tmp_path / 'test.txt').write_text('a.mp4 3\n')
    with pytest.raises(ValueError, match=r'All videos of .*train\.txt have the label 3'):
        cached_linear_probe(linear_config('', str(tmp_path)), checkpoint, tmp_path / 'out')


def test_an_output_that_cannot_be_made_is_found_before_the_work(checkpoint: str, tmp_path: Path):
    (tmp_path / 'file').write_text('')
    cfg = linear_config('', '')
    with pytest.raises(OSError):
        cached_linear_probe(cfg, checkpoint, tmp_path / 'file')
    with pytest.raises(OSError):
        retrieval(cfg, checkpoint, tmp_path / 'file' / 'below')


@pytest.mark.parametrize('views', [0, -1])
def test_numbers_of_views_below_one_are_refused(checkpoint: str, tmp_path: Path, views: int):
    with pytest.raises(ValueError, match=f'train_views must be at least 1, got {views}'):
        cached_linear_probe(linear_config('', ''), checkpoint, tmp_path, train_views=views)
    assert not list(tmp_path.iterdir())


def test_a_config_that_is_not_linear_is_refused(checkpoint: str, tmp_path: Path):
    cfg = linear_config('', '', 'baselines/supervised_k400.py')
    with pytest.raises(ValueError, match='is not frozen; use a config of configs/linear'):
        cached_linear_probe(cfg, checkpoint, tmp_path)


def other_backbone(motion_set: Path, lists: Path, backbone: dict, checkpoint: Path) -> Config:
    """Turn a linear config to a backbone of MMAction2 with random weights in a file."""
    cfg = linear_config(str(motion_set), str(lists))
    cfg.model.backbone = backbone
    torch.manual_seed(0)
    net = MODELS.build(dict(backbone))
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    torch.save(dict(state_dict=state, meta={}), checkpoint)
    return cfg


@pytest.mark.parametrize(
    ('backbone', 'channels'),
    [
        (dict(type='X3D', gamma_w=0.25, gamma_d=0.25, frozen_stages=4), None),
        (
            dict(
                type='VisionTransformer',
                img_size=32,
                embed_dims=24,
                depth=1,
                num_heads=2,
                num_frames=4,
                norm_cfg=dict(type='LN', eps=1e-6),
                return_feat_map=False,
            ),
            24,
        ),
    ],
    ids=['X3D', 'VideoMAE'],
)
def test_any_backbone_of_mmaction2_is_evaluated(
    motion_set: Path, lists: Path, tmp_path: Path, backbone: dict, channels: int | None
):
    checkpoint = tmp_path / 'other.pth'
    cfg = other_backbone(motion_set, lists, backbone, checkpoint)
    probe = cached_linear_probe(cfg, str(checkpoint), tmp_path / 'out', lrs=[1.0])
    assert 0 <= probe['val']['top1'] <= 1
    feats = np.load(tmp_path / 'out/train/feats_00000.npy')
    assert feats.shape[:2] == (32, 2) and feats.shape[2] == (channels or feats.shape[2])
    cfg = other_backbone(motion_set, lists, backbone, checkpoint)
    neighbours = retrieval(cfg, str(checkpoint), tmp_path / 'out')
    assert 0 <= neighbours['knn_top1'] <= 1
    other = other_backbone(motion_set, lists, backbone, checkpoint)
    state = torch.load(checkpoint, weights_only=True)
    del state['state_dict'][next(iter(state['state_dict']))]
    torch.save(state, checkpoint)
    with pytest.raises(CheckpointMisfitError, match='1 missing'):
        retrieval(other, str(checkpoint), tmp_path / 'out')
