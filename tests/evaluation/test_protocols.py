"""Protocols: on given features, on the lists of a config, and on labelled videos."""

import json
from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmaction.utils import register_all_modules

from cvrl_mm import load_encoder
from cvrl_mm.evaluation import labelled
from cvrl_mm.evaluation.features import Features, FeatureStore
from cvrl_mm.evaluation.labelled import check_config
from cvrl_mm.evaluation.protocols import (
    PROTOCOLS,
    across_folds,
    evaluate_config,
    evaluate_labels,
    intervals,
    means,
)
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
    given = checkpoint, Path(out)
    probe = evaluate_config('linear', linear_config(motion_set, lists), *given)
    return probe, evaluate_config('retrieval', linear_config(motion_set, lists), *given)


def test_two_ranks_equal_one_process(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    given, out = (str(motion_set), str(lists), checkpoint), tmp_path / 'one'
    probe, neighbours = both(*given, str(out))
    assert probe['protocol'].startswith('cached: 2 fixed views')
    assert '6 views of each test video; not the online protocol' in probe['protocol']
    for prefix in ('train_', ''):
        assert 0 <= probe[f'{prefix}top1'] <= probe[f'{prefix}top5'] <= 1
    rates = [8, 16, 32, 64, 128]
    assert probe['lr'] in rates and all(f'held_out_top1_lr{lr}' in probe for lr in rates)
    assert {*neighbours} >= {'R@1', 'R@20'} and 'R@50' not in neighbours
    assert json.loads((out / 'linear.json').read_text()) == probe
    assert json.loads((out / 'retrieval.json').read_text()) == neighbours
    feats = FeatureStore(out / 'train', dict(num_videos=32)).load().feats
    assert feats.shape == (32, 2, 64) and feats.dtype == torch.float16
    assert not torch.equal(feats[:, 0], feats[:, 1])  # each view is drawn anew

    of_ranks = run_ranks(both, 2, tmp_path, *given, str(tmp_path / 'two'))
    assert of_ranks == [(probe, neighbours)] * 2


def test_mistakes_are_found_before_the_work(lists: Path, checkpoint: str, tmp_path: Path):
    def run(name: str = '', protocol: str = 'linear', **change: object) -> None:
        cfg = linear_config('', name or str(lists))
        cfg.model.cls_head.update(num_classes=change.pop('num_classes', 16))
        evaluate_config(protocol, cfg, checkpoint, tmp_path / 'out', **change)

    for folder, train, test in (('one', 'a 3\nb 3', 'a 3'), ('none', 'a 1\nb 2', 'a 1\nb')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'train.txt').write_text(f'{train}\n')
        (tmp_path / folder / 'test.txt').write_text(f'{test}\n')
    none = str(tmp_path / 'none')
    for match, given in (
        ('num_classes=15', dict(num_classes=15)),
        ('two classes', dict(name=str(tmp_path / 'one'))),
        ('no label', dict(name=none)),
        ('no label', dict(name=none, protocol='retrieval')),
        ('few_shot', dict(protocol='clustering')),
    ):
        with pytest.raises(ValueError, match=match):
            run(**given)
    assert not (tmp_path / 'out').exists()


def test_lists_that_make_results_wrong_are_warned_of(tmp_path: Path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(labelled, 'print_log', lambda line, **kwargs: lines.append(line))
    (tmp_path / 'train.txt').write_text('a.mp4 0\nb.mp4 1\n')
    (tmp_path / 'test.txt').write_text('./b.mp4,1\nc.mp4,0\nd.mp4,3\n')
    cfg = linear_config('videos', str(tmp_path))
    cfg.test_dataloader.dataset.delimiter = ','
    check_config(cfg)
    assert 'such as 3' in lines[0] and 'videos/b.mp4' in lines[1]
    cfg.test_dataloader.dataset.data_prefix.video = None
    check_config(cfg)
    assert len(lines) == 3


def test_features_of_other_pixels_videos_or_weights_are_not_mixed_in(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())

    def run(weights: str = checkpoint, **preprocessor: object) -> None:
        cfg = linear_config(str(motion_set), str(own))
        cfg.model.data_preprocessor.update(preprocessor)
        evaluate_config('retrieval', cfg, weights, tmp_path)

    run()
    with pytest.raises(ValueError, match='clips'):
        run(std=[1, 1, 1])
    with pytest.raises(ValueError, match='weights_sha256'):
        run('random')
    first, *rest = (own / 'train.txt').read_text().splitlines()
    (own / 'train.txt').write_text('\n'.join([*rest, first]))
    with pytest.raises(ValueError, match='list_sha256'):
        run()


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
    assert 0 <= evaluate_config('knn', cfg, path, tmp_path / 'out')['knn_top1'] <= 1
    del state[next(iter(state))]
    torch.save(dict(state_dict=state, meta={}), path)
    with pytest.raises(CheckpointMisfitError, match='1 missing'):
        evaluate_config('knn', cfg, path, tmp_path / 'out')


def blobs(num: int, classes: int, noise: float = 0.0) -> Features:
    """One clip per video; classes differ in direction."""
    labels = torch.arange(num) % classes
    x = torch.eye(classes)[labels] + noise * torch.randn(num, classes)
    return Features(x[:, None], labels, torch.arange(num))


@pytest.mark.parametrize('name', PROTOCOLS)
def test_a_protocol_tells_separate_classes_apart(name: str):
    values = PROTOCOLS[name](blobs(60, 6), blobs(30, 6))
    kept = {k: x for k, x in values.items() if x.numel() > 1}
    assert kept and all(x.double().mean() == 1 for x in kept.values())
    assert all(0 < width < 0.15 for width in intervals(values).values())  # but not certain


def test_few_shot_accuracy_of_random_features_is_chance():
    torch.manual_seed(0)
    train, test = (blobs(800, 8, noise=1000) for _ in range(2))
    found = PROTOCOLS['few_shot'](train, test, episodes=2000)
    assert means(found) == pytest.approx({'5-way 1-shot': 0.2, '5-way 5-shot': 0.2}, abs=0.03)
    assert intervals(found)['5-way 1-shot'] == pytest.approx(1.96 * 0.4 / 10000**0.5, rel=0.1)
    assert list(PROTOCOLS['few_shot'](blobs(16, 8), test, episodes=2)) == ['5-way 1-shot']
    assert list(PROTOCOLS['few_shot'](blobs(16, 4), blobs(9, 4), episodes=2)) == ['4-way 1-shot']


def test_each_fold_is_tested_by_the_others():
    feats = blobs(12, 2)
    feats.labels[10:] = torch.tensor([1, 0])  # the wrong way round, also for each other
    folds = [(torch.arange(6), torch.arange(6, 12)), (torch.arange(6, 12), torch.arange(6))]
    found = across_folds('knn', feats, folds, k=1)['knn_top1']
    assert found.tolist() == [*[True] * 4, False, False, *[True] * 6]


def test_labelled_videos(motion_set: Path, tmp_path: Path):
    """Eight classes of a list, cross-validated, and with a list of test videos."""
    lines = [x.split() for x in (motion_set / 'train.txt').read_text().splitlines()]
    for name in ('train', 'test'):
        text = (motion_set / f'{name}.txt').read_text()
        (tmp_path / f'{name}.txt').write_text(
            ''.join(
                f'{motion_set}/{x.split()[0]} {int(x.split()[1]) % 2}\n' for x in text.splitlines()
            )
        )
    encoder = load_encoder('random', linear_config(str(motion_set), str(tmp_path)))
    given = 'logistic', encoder, tmp_path / 'train.txt'
    values, notes = evaluate_labels(*given, num_clips=1)
    assert len(values['top1']) == len(lines)
    assert '2 classes in 5' in notes[0] and '50.0%' in notes[1]
    values, notes = evaluate_labels(*given, tmp_path / 'test.txt', num_clips=1)
    assert len(values['top1']) == 16 and 'tested on 16' in notes[0]
