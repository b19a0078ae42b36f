from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config
from mmengine.registry import HOOKS, PARAM_SCHEDULERS

from cvrl_mm.convert.clip_input import ClipInput
from cvrl_mm.own_videos.config_file import render
from cvrl_mm.own_videos.inspection import Inspection, Video
from cvrl_mm.own_videos.lists import write_lists
from cvrl_mm.own_videos.network import ENCODERS, Network
from cvrl_mm.own_videos.options import Options
from cvrl_mm.own_videos.probe import Probe
from cvrl_mm.own_videos.settings import Machine, Setting, choose


def config(
    out: Path,
    options: Options,
    frames: int = 60,
    on_gpu: bool = False,
    memory: dict | None = None,
    steps: int = 100,
    grey: bool = False,
    start: Network | None = None,
) -> Config:
    probe = Probe(256, 128, frames, 30.0, grey)
    names = [f"{'ab'[i % 2]}/it's {i}.mp4" for i in range(40)]
    inspection = Inspection(Path('/my videos'), [Video(n, probe) for n in names], {}, {})
    plan = choose(inspection, options, Machine(2, 1, on_gpu), start)
    plan.settings['steps'] = Setting(steps, 'for a test')
    plan.settings['memory'] = Setting(memory or {}, 'for a test')
    write_lists(inspection, plan.train, plan.watched, plan['window_frames'], out / 'lists')
    path = out / 'config.py'
    path.write_text(render(inspection, plan, options), encoding='utf-8')
    return Config.fromfile(path)


def steps_of(cfg: Config) -> list[str]:
    return [step.type for step in cfg.train_dataloader.dataset.pipeline]


def test_the_config_builds(tmp_path: Path):
    cfg = config(tmp_path, Options(seed=3))
    with torch.device('meta'):
        MODELS.build(cfg.model)
    watched = next(h for h in cfg.custom_hooks if h.type == 'RepresentationHook').dataloader
    for pipeline in (cfg.train_dataloader.dataset.pipeline, watched.dataset.pipeline):
        for step in pipeline:
            TRANSFORMS.build(step)
    for hook in [*cfg.custom_hooks, *cfg.default_hooks.values()]:
        HOOKS.build(hook)
    assert cfg.optim_wrapper.optimizer == dict(type='AdamW', lr=0.0014, weight_decay=1e-4)
    assert cfg.train_cfg.max_iters == 100 and cfg.param_scheduler[0].end == 10
    assert cfg.randomness.seed == 3 and cfg.work_dir == str(tmp_path / 'training')
    assert ClipInput.from_config(cfg) == ClipInput(8, 3, 64)
    text = (tmp_path / 'config.py').read_text()
    assert '# Batch: 8 (' in text and '# Learning rate: 0.0014 (' in text


def test_the_config_is_short(tmp_path: Path):
    config(tmp_path, Options())
    lines = (tmp_path / 'config.py').read_text().splitlines()
    assert sum(not line.startswith('#') for line in lines) <= 36
    assert all(len(line) <= 100 for line in lines if line.startswith('#'))


@pytest.mark.parametrize('steps', [1, 2, 8, 14, 16, 100])
def test_the_rate_reaches_its_peak(steps: int, tmp_path: Path):
    """A warm-up of one step would stay at its first factor for ever."""
    cfg = config(tmp_path, Options(lr=0.5), steps=steps)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=cfg.optim_wrapper.optimizer.lr)
    schedulers = [
        PARAM_SCHEDULERS.build(part, default_args=dict(optimizer=optimizer))
        for part in (dict(s, T_max=steps) if 'Cosine' in s.type else s for s in cfg.param_scheduler)
    ]
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert max(rates) > 0.47


def test_switches_leave_augmentations_out(tmp_path: Path):
    def transforms(options: Options) -> list:
        cfg = config(tmp_path, options)
        augment = cfg.train_dataloader.dataset.pipeline[3]
        return augment.transforms

    everything = [t.type for t in transforms(Options())]
    assert {'Flip', 'ClipColorJitter', 'ClipGrayscale', 'ClipGaussianBlur'} <= set(everything)
    assert 'Flip' not in [t.type for t in transforms(Options(flip=False))]
    left = [t.type for t in transforms(Options(colour=False))]
    assert not {'ClipColorJitter', 'ClipGrayscale'} & set(left)
    grey = config(tmp_path, Options(), grey=True).train_dataloader.dataset.pipeline[3].transforms
    jitter = next(t for t in grey if t.type == 'ClipColorJitter')
    assert jitter.hue == (0.0, 0.0) and jitter.brightness == (0.6, 1.4)
    assert 'ClipGrayscale' not in [t.type for t in grey]
    assert transforms(Options(zoom=False))[0].area_range == (0.8, 1.0)
    assert transforms(Options())[0].area_range == (0.3, 1.0)


def test_a_moved_folder_uses_its_own_files(tmp_path: Path):
    old, new = tmp_path / "it's", tmp_path / 'new "one"'
    old.mkdir()
    start = ENCODERS['r3d18']
    assert config(old, Options(init='x.pth'), start=start).work_dir == str(old / 'training')
    cfg = Config.fromfile(old.rename(new) / 'config.py')
    assert cfg.work_dir == str(new / 'training')
    assert cfg.train_dataloader.dataset.ann_file == str(new / 'lists/train.txt')
    assert cfg.custom_hooks[-1].dataloader.dataset.ann_file == str(new / 'lists/watched.txt')
    assert cfg.model.backbone.init_cfg.checkpoint == str(new / 'init.pth')


def test_long_files(tmp_path: Path):
    cfg = config(tmp_path, Options(segment_seconds=10), frames=900)
    assert steps_of(cfg)[1] == 'VideoWindow'
    assert cfg.train_dataloader.dataset.pipeline[1].window_frames == 300
    assert Path(cfg.train_dataloader.dataset.ann_file).name == 'train_windows.txt'
    lines = (tmp_path / 'lists/train_windows.txt').read_text().splitlines()
    assert len(lines) == 3 * 32 and [line[-1] for line in lines[:3]] == ['0', '1', '2']
    assert 'VideoWindow' not in steps_of(config(tmp_path, Options()))


@pytest.mark.parametrize('workers', [0, 2])
def test_workers(workers: int, tmp_path: Path):
    loader = config(tmp_path, Options(workers=workers)).train_dataloader
    assert loader.num_workers == workers and loader.persistent_workers == (workers > 0)


def test_a_gpu_gets_mixed_precision(tmp_path: Path):
    cfg = config(tmp_path, Options(encoder='r3d50', size=224, batch_size=32), on_gpu=True)
    assert cfg.optim_wrapper.type == 'AutocastOptimWrapper'
    assert cfg.model.backbone.depth == 50 and cfg.model.cls_head.hidden_channels == 2048
    assert 'chunk_size' not in cfg.model


def test_what_saves_memory_is_set(tmp_path: Path):
    cfg = config(tmp_path, Options(), memory=dict(chunk_size=4))
    assert cfg.model.chunk_size == 4
    cfg = config(tmp_path, Options(), memory=dict(backbone=dict(recompute=dict(layer1=3))))
    assert cfg.model.backbone.recompute == dict(layer1=3)
    with torch.device('meta'):
        MODELS.build(cfg.model)
    text = (tmp_path / 'config.py').read_text()
    assert '# Encoder: small (' in text and 'recompute' in text.partition('model = ')[0]
