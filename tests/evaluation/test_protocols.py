"""The linear probe and retrieval on the videos of a config."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from mmaction.utils import register_all_modules
from mmengine.config import ConfigDict

from cvrl_mm.evaluation import knn, linear_probe
from cvrl_mm.evaluation.knn import retrieval
from cvrl_mm.evaluation.linear_probe import cached_linear_probe
from cvrl_mm.models.weights import CheckpointMisfitError
from tests.ranks import run_ranks
from tests.tiny import linear_config, save_backbone


@pytest.fixture(scope='module')
def lists(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than 20 videos to train on, half of which are the test videos, too."""
    folder = tmp_path_factory.mktemp('lists')
    train, test = ((motion_set / f'{name}.txt').read_text() for name in ('train', 'test'))
    for name, content in (('train', train + test), ('val', test), ('test', test)):
        (folder / f'{name}.txt').write_text(content)
    return folder


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_backbone(tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'))


def both(motion_set: str, lists: str, checkpoint: str, out: str) -> tuple[dict, dict]:
    register_all_modules()
    cfg = linear_config(motion_set, lists)
    probe = cached_linear_probe(cfg, checkpoint, Path(out))
    return probe, retrieval(linear_config(motion_set, lists), checkpoint, Path(out))


def test_two_ranks_equal_one_process(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    given, out = (str(motion_set), str(lists), checkpoint), tmp_path / 'one'
    probe, neighbours = both(*given, str(out))
    assert probe['protocol'].startswith('cached: 2 fixed views')
    assert '6 views of each test video; not the online protocol' in probe['protocol']
    for scores in (probe['train'], probe['val']):
        assert 0 <= scores['top1'] <= scores['top5'] <= 1
    assert list(map(float, sorted(probe['held_out_top1'], key=float))) == [8, 16, 32, 64, 128]
    assert json.loads((out / 'cached_probe.json').read_text()) == probe
    assert json.loads((out / 'retrieval.json').read_text()) == neighbours
    feats = np.load(out / 'train/feats_000000000.npz')['feats.backbone']
    assert feats.shape == (32, 2, 64) and feats.dtype == np.float16
    assert not np.array_equal(feats[:, 0], feats[:, 1])  # each view is drawn anew

    of_ranks = run_ranks(both, 2, tmp_path, *given, str(tmp_path / 'two'))
    assert of_ranks == [(probe, neighbours)] * 2


def test_mistakes_are_found_before_the_work(lists: Path, checkpoint: str, tmp_path: Path):
    def run(name: str = '', **change: object) -> None:
        cfg = linear_config('', name or str(lists))
        cfg.model.cls_head.update(num_classes=change.pop('num_classes', 16))
        cached_linear_probe(cfg, checkpoint, tmp_path / 'out', **change)

    for folder, train, test in (('one', 'a 3\nb 3', 'a 3'), ('none', 'a 1\nb 2', 'a 1\nb')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'train.txt').write_text(f'{train}\n')
        (tmp_path / folder / 'test.txt').write_text(f'{test}\n')
    with pytest.raises(ValueError, match='train_views'):
        run(train_views=0)
    with pytest.raises(ValueError, match='num_classes=15'):
        run(num_classes=15)
    with pytest.raises(ValueError, match='two classes'):
        run(str(tmp_path / 'one'))
    with pytest.raises(ValueError, match='no label'):
        run(str(tmp_path / 'none'))
    with pytest.raises(ValueError, match='no label'):
        retrieval(linear_config('', str(tmp_path / 'none')), checkpoint, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_test_classes_without_training_videos_are_reported(tmp_path: Path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(linear_probe, 'print_log', lambda line, **kwargs: lines.append(line))
    for name, videos in (('train', 'a 1\nb 3\n'), ('test', 'a 1\nc 2\nd 4\n')):
        (tmp_path / f'{name}.txt').write_text(videos)
    with pytest.raises(FileNotFoundError, match='missing'):
        cached_linear_probe(linear_config('', str(tmp_path)), 'missing.pth', tmp_path)
    assert '2 of the 3' in lines[0] and 'such as 2' in lines[0]


def test_features_of_other_pixels_videos_or_weights_are_not_mixed_in(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())

    def run(weights: str = checkpoint, root: Path = motion_set, **preprocessor: object) -> None:
        cfg = linear_config(str(root), str(own))
        cfg.model.data_preprocessor.update(preprocessor)
        retrieval(cfg, weights, tmp_path)

    run()
    copy = tmp_path / 'copy.pth'
    copy.write_bytes(Path(checkpoint).read_bytes())
    run(str(copy))  # equal weights in another file
    with pytest.raises(ValueError, match='data_preprocessor'):
        run(std=[1, 1, 1])
    with pytest.raises(ValueError, match='weights_sha256'):
        run('untrained')
    (other := tmp_path / 'other').symlink_to(motion_set)
    with pytest.raises(ValueError, match='files_sha256'):
        run(root=other)
    first, *rest = (own / 'train.txt').read_text().splitlines()
    (own / 'train.txt').write_text('\n'.join([*rest, first]))
    with pytest.raises(ValueError, match='list_sha256'):
        run()


def test_test_videos_among_the_training_videos_are_reported(tmp_path: Path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(knn, 'print_log', lambda line, **kwargs: lines.append(line))
    (tmp_path / 'train.txt').write_text('a.mp4 0\nb.mp4 1\n')
    (tmp_path / 'test.txt').write_text('./b.mp4,1\nc.mp4,0\nd.mp4,0\n')
    train, test = (
        ConfigDict(ann_file=str(tmp_path / f'{name}.txt'), data_prefix=dict(video='videos'))
        for name in ('train', 'test')
    )
    test.delimiter = ','
    knn.compare_lists(train, test)
    assert '1 of 3 videos' in lines[0] and 'videos/b.mp4' in lines[0]
    test.data_prefix.video = None
    knn.compare_lists(train, test)
    assert len(lines) == 1


VIT = dict(
    type='VisionTransformer',
    img_size=32,
    embed_dims=24,
    depth=1,
    num_heads=2,
    num_frames=4,
    norm_cfg=dict(type='LN', eps=1e-6),
    return_feat_map=False,
)


@pytest.mark.parametrize(
    'backbone',
    [dict(type='X3D', gamma_w=0.25, gamma_d=0.25, frozen_stages=4), VIT],
    ids=['X3D', 'VideoMAE'],
)
def test_any_backbone_of_mmaction2_is_evaluated(
    motion_set: Path, lists: Path, tmp_path: Path, backbone: dict
):
    cfg = linear_config(str(motion_set), str(lists))
    cfg.model.backbone = backbone
    net, path = MODELS.build(dict(backbone)), str(tmp_path / 'other.pth')
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    torch.save(dict(state_dict=state, meta={}), path)
    assert 0 <= retrieval(cfg, path, tmp_path / 'out')['knn_top1'] <= 1
    del state[next(iter(state))]
    torch.save(dict(state_dict=state, meta={}), path)
    with pytest.raises(CheckpointMisfitError, match='1 missing'):
        retrieval(cfg, path, tmp_path / 'out')
