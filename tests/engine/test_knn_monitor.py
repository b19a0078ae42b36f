import json
import math
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.optim import LinearLR
from mmengine.runner import Runner
from torch import nn

from cvrl_mm.engine.knn_monitor import KNNMonitorHook
from cvrl_mm.evaluation.features import Features
from cvrl_mm.visualization.curves import plot_curves, read_curves
from tests.pretraining import small_config
from tests.ranks import run_ranks

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.fixture(scope='module')
def watch_list(motion_set: Path) -> Path:
    path = motion_set.parent / 'watch.txt'
    path.write_text(''.join((motion_set / f'{s}.txt').read_text() for s in ('train', 'test')))
    return path


def runner(motion_set: Path, watch_list: Path, work_dir: Path, interval: int | None) -> Runner:
    """Three epochs of a thin CVRL on 16 videos, watched every ``interval`` epochs."""
    options = {'train_dataloader.batch_size': 8, 'train_dataloader.num_workers': 0}
    names = dict(experiment_name=uuid4().hex, log_level='WARNING', launcher='none')
    cfg = small_config(motion_set, work_dir, **options, **names)
    hook = Config.fromfile(CONFIGS / 'cvrl/pretrain_k400_watched.py').custom_hooks.pop()
    assert hook.type == 'KNNMonitorHook'
    hook.interval, loader = interval, hook.dataloader
    loader.update(batch_size=5, num_workers=0, persistent_workers=False)
    loader.dataset.update(ann_file=str(watch_list), data_prefix=dict(video=str(motion_set)))
    loader.dataset.pipeline[1].clip_len = 4
    loader.dataset.pipeline[3].scale = (-1, 32)
    loader.dataset.pipeline[4].crop_size = 32
    cfg.custom_hooks = [hook] if interval else []
    return Runner.from_cfg(cfg)


def scalars(work_dir: Path) -> list[dict]:
    lines = next(work_dir.glob('*/vis_data/scalars.json')).read_text().splitlines()
    return [row for row in map(json.loads, lines) if 'representation/knn_top1' in row]


def test_reports_and_leaves_training_as_it_was(motion_set, watch_list, tmp_path: Path):
    watched = runner(motion_set, watch_list, tmp_path / 'watched', interval=2)
    watched.train()
    alone = runner(motion_set, watch_list, tmp_path / 'alone', interval=None)
    alone.train()
    expected = alone.model.state_dict()
    for key, value in watched.model.state_dict().items():
        assert torch.equal(value, expected[key]), key

    rows = scalars(tmp_path / 'watched')
    assert [row['step'] for row in rows] == [2, 3]  # every second epoch, and the last
    names = {f'representation/{name}' for name in ('R@1', 'R@5', 'R@10', 'feature_std')}
    names |= {f'representation/embedding_{n}' for n in ('rank', 'std', 'alignment', 'uniformity')}
    assert names <= set(rows[0])
    assert 0 <= rows[0]['representation/R@1'] <= rows[0]['representation/R@10'] <= 1
    assert not list((tmp_path / 'alone').glob('*/vis_data/scalars.json')) or not scalars(
        tmp_path / 'alone'
    )


def _represent(motion_set: Path, watch_list: Path, work_dir: Path) -> tuple:
    register_all_modules()
    run = runner(motion_set, watch_list, work_dir, interval=2)
    hook = hook_of(run)
    hook.before_train(run)
    found, z = hook.represent(run.model.eval())
    return found.labels.tolist(), found.feats.shape, z.shape


def test_ranks_share_the_list(motion_set, watch_list, tmp_path: Path):
    labels = [int(line.split()[-1]) for line in watch_list.read_text().splitlines()]
    found = run_ranks(_represent, 2, tmp_path, motion_set, watch_list, tmp_path / 'run')
    assert found == [(labels, (32, 2, 64), (32, 2, 128))] * 2


def given(z: torch.Tensor, labels: torch.Tensor) -> tuple[Features, torch.Tensor]:
    """What a hook measures, with features equal to the embeddings."""
    return Features(z, labels, torch.arange(len(z))), z


def test_collapse_is_warned_of(motion_set, watch_list, tmp_path: Path, monkeypatch):
    """Not during the warm-up, and not by one measurement after it."""
    run = runner(motion_set, watch_list, tmp_path, interval=2)
    nn.init.zeros_(run.model.cls_head.projection[-1].weight)
    nn.init.ones_(run.model.cls_head.projection[-1].bias)
    hook = hook_of(run)
    hook.before_train(run)
    run._train_loop = run.build_train_loop(run._train_loop)
    warnings = []
    monkeypatch.setattr(run.logger, 'warning', warnings.append)
    run.train_loop._epoch = 1
    optimizer = torch.optim.SGD(run.model.parameters(), lr=1)
    run.param_schedulers = [LinearLR(optimizer, end=2)]
    hook.after_train_epoch(run)
    assert not warnings
    for _ in range(2):
        run.param_schedulers[0].step()
    hook.after_train_epoch(run)
    with monkeypatch.context() as patched:  # the embedding widens again
        none = torch.full((32,), -1)
        wide = given(torch.randn(32, 2, 8), none)
        patched.setattr(hook, 'represent', lambda model: wide)
        hook.after_train_epoch(run)
        narrow = given(1 + 0.01 * torch.randn(32, 1, 8).expand(32, 2, 8), none)  # pairs are found
        patched.setattr(hook, 'represent', lambda model: narrow)
        for _ in range(2):
            hook.after_train_epoch(run)
    hook.after_train_epoch(run)
    assert not warnings
    hook.after_train_epoch(run)
    assert len(warnings) == 1 and 'standard deviation is 0 ' in warnings[0]


def test_features_that_are_not_finite_are_nan_and_plotted(
    motion_set, watch_list, tmp_path: Path, monkeypatch
):
    """A diverged training can have finite weights and losses, but infinite features."""
    run = runner(motion_set, watch_list, tmp_path, interval=2)
    run._train_loop = run.build_train_loop(run._train_loop)
    hook = hook_of(run)
    results = given(torch.full((4, 2, 8), math.inf), torch.arange(4) % 2)
    monkeypatch.setattr(hook, 'represent', lambda model: results)
    run.train_loop._epoch = 1
    hook.after_train_epoch(run)
    (row,) = scalars(tmp_path)
    assert {name for name, x in row.items() if not math.isnan(x)} == {'step'}
    plot_curves({'diverged': read_curves(tmp_path)}, tmp_path / 'curves.png')
    assert (tmp_path / 'curves.png').stat().st_size > 1000


def hook_of(run: Runner) -> KNNMonitorHook:
    return next(h for h in run.hooks if isinstance(h, KNNMonitorHook))


def test_unreadable_videos_are_left_out(motion_set, tmp_path: Path, monkeypatch):
    """One is broken; later all but two are."""
    videos = tmp_path / 'videos'
    videos.mkdir()
    lines = (motion_set / 'test.txt').read_text().splitlines()[:8]
    for line in lines:
        shutil.copy(motion_set / line.split()[0], videos)
    names = [Path(line.split()[0]).name for line in lines]
    (tmp_path / 'list.txt').write_text(''.join(f'{name} {i % 2}\n' for i, name in enumerate(names)))
    (videos / names[1]).write_bytes(b'no video')
    run = runner(motion_set, tmp_path / 'list.txt', tmp_path / 'run', interval=2)
    hook = hook_of(run)
    hook.dataloader.dataset.data_prefix = dict(video=str(videos))
    warnings: list[str] = []
    monkeypatch.setattr(run.logger, 'warning', warnings.append)
    hook.before_train(run)
    assert list(hook.represent(run.model.eval())[0].errors) == [1]
    for _ in range(2):
        hook._measure(run, 2, 'epoch')
    (text,) = warnings
    assert '1 of the 8 videos' in text and names[1] in text
    for name in names[2:7]:
        (videos / name).unlink()
    hook._measure(run, 3, 'epoch')
    assert '6 of the 8' in warnings[-1]


def test_a_list_without_neighbours_is_refused(motion_set, tmp_path: Path):
    lines = (motion_set / 'test.txt').read_text().splitlines()[:2]
    (tmp_path / 'list.txt').write_text('\n'.join(lines))
    run = runner(motion_set, tmp_path / 'list.txt', tmp_path, interval=2)
    with pytest.raises(ValueError, match='2 videos'):
        hook_of(run).before_train(run)


def test_training_counted_in_steps_without_labels(motion_set, tmp_path: Path):
    unlabelled = tmp_path / 'unlabelled.txt'
    lines = (motion_set / 'test.txt').read_text().splitlines()
    unlabelled.write_text('\n'.join(line.split()[0] for line in lines))
    run = runner(motion_set, unlabelled, tmp_path / 'run', interval=2)
    hook_of(run).by_epoch = False
    run._train_loop = run.build_train_loop(dict(type='SeededIterLoop', max_iters=3))
    run.train()
    lines = next((tmp_path / 'run').glob('*/vis_data/scalars.json')).read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if 'representation/clip_retrieval' in row]
    assert [row['step'] for row in rows] == [2, 3]
    assert 0 <= rows[0]['representation/clip_retrieval'] <= 1
    assert 'representation/knn_top1' not in rows[0] and 'representation/R@1' not in rows[0]
