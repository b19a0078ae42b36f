import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from mmaction.utils import register_all_modules
from mmengine.config import Config

from cvrl_mm.evaluation.cached_linear_probe import cached_linear_probe
from cvrl_mm.evaluation.retrieval import retrieval
from cvrl_mm.models import R3DSlow
from cvrl_mm.models.pretrained import CheckpointMisfitError
from tests.ranks import run_ranks
from tests.tiny import turn_down

CONFIGS = Path(__file__).parents[2] / 'configs'


def config(motion_set: str, lists: str, name: str = 'linear/linear_k400.py') -> Config:
    cfg = turn_down(Config.fromfile(CONFIGS / name), motion_set, lists)
    cfg.train_cfg.max_epochs = 10
    return cfg


@pytest.fixture(scope='module')
def lists(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than 20 videos to train on, half of which are the test videos, too."""
    folder = tmp_path_factory.mktemp('lists')
    train, test = ((motion_set / f'{name}.txt').read_text() for name in ('train', 'test'))
    for name, text in (('train', train + test), ('val', test), ('test', test)):
        (folder / f'{name}.txt').write_text(text)
    return folder


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125)
    net.init_weights()
    path = tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'
    torch.save({f'backbone.{k}': v for k, v in net.state_dict().items()}, path)
    return str(path)


def both(motion_set: str, lists: str, checkpoint: str, out: str) -> tuple[dict, dict]:
    register_all_modules()
    probe = cached_linear_probe(
        config(motion_set, lists), checkpoint, Path(out), lrs=[0.1, 32.0, 64.0]
    )
    return probe, retrieval(config(motion_set, lists), checkpoint, Path(out))


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


def test_features_of_other_pixels_or_videos_are_not_mixed_in(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())
    retrieval(config(str(motion_set), str(own)), checkpoint, tmp_path)
    other = config(str(motion_set), str(own))
    other.model.data_preprocessor.std = [1, 1, 1]
    with pytest.raises(ValueError, match='features of another source'):
        retrieval(other, checkpoint, tmp_path)
    first, *rest = (own / 'train.txt').read_text().splitlines()
    (own / 'train.txt').write_text('\n'.join([*rest, first]))
    with pytest.raises(ValueError, match='features of another source'):
        retrieval(config(str(motion_set), str(own)), checkpoint, tmp_path)


def test_labels_beyond_the_classes_are_refused(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    cfg = config(str(motion_set), str(lists))
    cfg.model.cls_head.num_classes = 15
    with pytest.raises(ValueError, match=r'line \d+: .* has the label 15; num_classes=15'):
        cached_linear_probe(cfg, checkpoint, tmp_path)
    assert not list(tmp_path.iterdir())  # found before anything is encoded


def test_missing_labels_are_found_before_the_work(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())
    with (own / 'test.txt').open('a') as file:
        file.write('unlabelled.mp4\n')
    out = tmp_path / 'out'
    with pytest.raises(ValueError, match=r'test\.txt, line 17: .*unlabelled\.mp4 has no label'):
        retrieval(config(str(motion_set), str(own)), checkpoint, out)
    assert not list(out.iterdir())


def test_an_output_that_cannot_be_made_is_found_before_the_work(checkpoint: str, tmp_path: Path):
    (tmp_path / 'file').write_text('')
    cfg = config('', '')
    with pytest.raises(OSError):
        cached_linear_probe(cfg, checkpoint, tmp_path / 'file')
    with pytest.raises(OSError):
        retrieval(cfg, checkpoint, tmp_path / 'file' / 'below')


def test_a_config_that_is_not_linear_is_refused(checkpoint: str, tmp_path: Path):
    cfg = config('', '', 'baselines/supervised_k400.py')
    with pytest.raises(ValueError, match='is not frozen; take one of configs/linear'):
        cached_linear_probe(cfg, checkpoint, tmp_path)


def other_backbone(motion_set: Path, lists: Path, backbone: dict, checkpoint: Path) -> Config:
    """Turn a linear config to a backbone of MMAction2 with random weights in a file."""
    cfg = config(str(motion_set), str(lists))
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


def test_an_untrained_encoder_is_evaluated(motion_set: Path, lists: Path, tmp_path: Path):
    results = []
    for seed in (0, 0, 1):
        cfg = config(str(motion_set), str(lists))
        cfg.randomness = dict(seed=seed)
        assert cfg.model.backbone.init_cfg.checkpoint  # is not looked for
        results.append(retrieval(cfg, 'untrained', tmp_path / f'{len(results)}'))
    assert results[0] == results[1]
    first, last = (np.load(tmp_path / f'{i}/train_mean/feats_00000.npy') for i in (0, 2))
    assert not np.array_equal(first, last)
