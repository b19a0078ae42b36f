from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config
from mmengine.registry import HOOKS

from cvrl_mm.convert.clip_input import ClipInput
from cvrl_mm.own_videos.config_file import render, write_lists
from cvrl_mm.own_videos.inspection import Inspection, Video
from cvrl_mm.own_videos.probe import Probe
from cvrl_mm.own_videos.settings import Machine, Options, Setting, choose


def config(out: Path, options: Options, frames: int = 60, gpu_bytes: int | None = None) -> Config:
    probe = Probe(256, 128, frames, 30.0)
    names = [f"{'ab'[i % 2]}/it's {i}.mp4" for i in range(40)]
    inspection = Inspection(Path('/my videos'), [Video(n, probe) for n in names], {}, {})
    plan = choose(inspection, options, Machine(2, 1, gpu_bytes))
    plan.settings['steps'] = Setting(100, 'for a test')
    write_lists(inspection, plan, out / 'lists')
    path = out / 'config.py'
    path.write_text(render(inspection, plan, options, out), encoding='utf-8')
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


def test_lists(tmp_path: Path):
    cfg = config(tmp_path, Options())
    lines = Path(cfg.train_dataloader.dataset.ann_file).read_text().splitlines()
    assert len(lines) == 32 and all(line.endswith('.mp4 0') for line in lines)
    watched = (tmp_path / 'lists/watched.txt').read_text().splitlines()
    assert sorted(line[-1] for line in watched) == ['0'] * 4 + ['1'] * 4  # by folder
    assert not {line.rpartition(' ')[0] for line in watched} & {
        line.rpartition(' ')[0] for line in lines
    }
    assert (tmp_path / 'lists/classes.txt').read_text() == 'a\nb\n'
    assert len((tmp_path / 'lists/all.txt').read_text().splitlines()) == 40


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
    assert transforms(Options(zoom=False))[0].area_range == (0.8, 1.0)
    assert transforms(Options())[0].area_range == (0.3, 1.0)


def test_long_files(tmp_path: Path):
    cfg = config(tmp_path, Options(segment_seconds=10), frames=900)
    assert steps_of(cfg)[1] == 'VideoWindow'
    assert cfg.train_dataloader.dataset.pipeline[1].window_frames == 300
    lines = (tmp_path / 'lists/train.txt').read_text().splitlines()
    assert len(lines) == 3 * 32 and [line[-1] for line in lines[:3]] == ['0', '1', '2']
    assert 'VideoWindow' not in steps_of(config(tmp_path, Options()))


@pytest.mark.parametrize('workers', [0, 2])
def test_workers(workers: int, tmp_path: Path):
    loader = config(tmp_path, Options(workers=workers)).train_dataloader
    assert loader.num_workers == workers and loader.persistent_workers == (workers > 0)


def test_a_gpu_gets_mixed_precision_and_chunks(tmp_path: Path):
    cfg = config(tmp_path, Options(encoder='r3d50', size=224, batch_size=32), gpu_bytes=2**33)
    assert cfg.optim_wrapper.type == 'AutocastOptimWrapper'
    assert 2 <= cfg.model.chunk_size < 32
    assert cfg.model.backbone.depth == 50 and cfg.model.cls_head.in_channels == 2048
