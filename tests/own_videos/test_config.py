from pathlib import Path
from typing import Any

import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config
from mmengine.registry import HOOKS

from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.options import Options
from cvrl_mm.own_videos.config import lists_of, render
from cvrl_mm.own_videos.folder import replace_lists, write_inputs
from cvrl_mm.own_videos.inspect import Inspection, Video
from cvrl_mm.own_videos.plan import ENCODERS, Machine, Network, Setting, choose


def config(
    out: Path,
    frames: int = 60,
    on_gpu: bool = False,
    steps: int = 100,
    grey: bool = False,
    root: Path = Path('/my videos'),
    **options: Any,
) -> Config:
    chosen = Options(**options)
    videos = [Video(f"{'ab'[i % 2]}/it's {i}.mp4", 256, 128, frames, 30.0, grey) for i in range(40)]
    found = Inspection(root, videos, {}, {})
    backbone = ENCODERS['tiny'].backbone
    start = (
        None if chosen.init in (None, 'random') else Network(backbone, 128, 64, dict(std=[9.0] * 3))
    )
    plan = choose(found, chosen, Machine(2, 1, on_gpu), start)
    plan.settings['steps'] = Setting(steps, 'for a test')
    replace_lists(out, lists_of(found, plan))
    write_inputs(out, root, plan.network)
    (out / 'config.py').write_text(render(found, plan), encoding='utf-8')
    return Config.fromfile(out / 'config.py')


def test_the_config_builds(tmp_path: Path):
    cfg = config(tmp_path, seed=3)
    with torch.device('meta'):
        MODELS.build(cfg.model)
    watched = next(h for h in cfg.custom_hooks if 'dataloader' in h).dataloader
    for pipeline in (cfg.train_dataloader.dataset.pipeline, watched.dataset.pipeline):
        for step in pipeline:
            TRANSFORMS.build(step)
    for hook in [*cfg.custom_hooks, *cfg.default_hooks.values()]:
        HOOKS.build(hook)
    assert cfg.optim_wrapper.optimizer == dict(type='AdamW', lr=0.0018, weight_decay=1e-4)
    assert cfg.train_cfg.max_iters == 100 and cfg.param_scheduler[0].end == 10
    assert cfg.model.backbone.init_cfg.checkpoint == str(tmp_path / 'init.pth')
    assert 'init_cfg' not in config(tmp_path, init='random').model.backbone
    assert cfg.sync_bn == 'torch'  # on several GPUs
    assert cfg.randomness.seed == 3 and cfg.work_dir == str(tmp_path / 'training')
    assert cfg.train_dataloader.dataset.data_prefix.video == '/my videos'
    assert (cfg.train_dataloader.num_workers, cfg.train_dataloader.persistent_workers) == (1, True)
    assert ClipInput.from_config(cfg) == ClipInput(8, 6, 48, fps=30)
    text = (tmp_path / 'config.py').read_text()
    assert '# Batch size: 10 (' in text and '# Lr: 0.0018 (' in text
    short = config(tmp_path, steps=14).param_scheduler  # a warm-up of one step would never end
    assert [part.type for part in short] == ['CosineAnnealingLR']


@pytest.mark.parametrize(
    'name', ["""$A:(.*)|(');__import__("os").system("touch${IFS}PWNED")#""", "it's", '"x" }}']
)
def test_names_of_folders_are_never_code(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'old').mkdir()
    config(tmp_path / 'old', root=tmp_path / name, init=f'{name}.pth')
    moved = (tmp_path / 'old').rename(tmp_path / name)
    cfg = Config.fromfile(moved / 'config.py')
    dataset = cfg.train_dataloader.dataset
    assert dataset.data_prefix.video == str(tmp_path / name)
    assert dataset.ann_file == str(moved / 'lists/train.txt')
    assert cfg.work_dir == str(moved / 'training')
    assert cfg.model.backbone.init_cfg.checkpoint == str(moved / 'init.pth')
    assert cfg.model.backbone.width == 0.25 and cfg.model.data_preprocessor.std == [9.0] * 3
    assert [path.name for path in tmp_path.iterdir()] == [name]
    cfg.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == cfg.to_dict()


def test_names_that_could_become_code_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match='rename'):
        config(tmp_path, root=tmp_path / '{{$A:x}}')
    with pytest.raises(ValueError, match='rename'):  # in the description of an encoder
        write_inputs(tmp_path, tmp_path, Network(dict(style='{{$HOME:x}}'), 128, 64))
    for name in ('{{$A:x}}', "a'''b", 'a\\b'):
        (tmp_path / name).mkdir()
        with pytest.raises(ValueError, match='rename'):
            config(tmp_path / name)


def test_options_change_the_config(tmp_path: Path):
    def transforms(**given: Any) -> dict:
        augment = config(tmp_path, **given).train_dataloader.dataset.pipeline[3]
        return {step.type: step for step in augment.transforms}

    everything = transforms()
    assert {'Flip', 'ClipColorJitter', 'ClipGrayscale', 'ClipGaussianBlur'} <= set(everything)
    assert everything['RandomResizedCrop'].area_range == (0.4, 1.0)
    assert 'Flip' not in transforms(flip=False)
    assert not {'ClipColorJitter', 'ClipGrayscale'} & set(transforms(colour=False))
    grey = transforms(grey=True)
    assert grey['ClipColorJitter'].hue == (0.0, 0.0) and 'ClipGrayscale' not in grey
    assert transforms(zoom=False)['RandomResizedCrop'].area_range == (0.8, 1.0)
    loader = config(tmp_path, workers=0).train_dataloader
    assert (loader.num_workers, loader.persistent_workers) == (0, False)
    cfg = config(tmp_path, encoder='r3d50', size=224, batch_size=32, on_gpu=True)
    assert cfg.optim_wrapper.type == 'AutocastOptimWrapper'
    assert cfg.model.backbone.depth == 50 and cfg.model.cls_head.hidden_channels == 2048


def test_lists_and_long_files(tmp_path: Path):
    def lines(name: str) -> list[str]:
        return (tmp_path / f'lists/{name}.txt').read_text().splitlines()

    dataset = config(tmp_path).train_dataloader.dataset
    assert 'VideoWindow' not in [step.type for step in dataset.pipeline]
    assert len(lines('train')) == 32 and lines('classes') == ['a', 'b']
    assert sorted(line[-1] for line in lines('watched')) == ['0'] * 4 + ['1'] * 4  # by folder
    assert lines('all')[1] == "b/it's 1.mp4 1" and len(lines('all')) == 40
    dataset = config(tmp_path, segment_seconds=10, frames=900).train_dataloader.dataset
    assert dict(dataset.pipeline[1]) == dict(type='VideoWindow', window_seconds=10.0)
    assert Path(dataset.ann_file).name == 'train_windows.txt'
    windows = lines('train_windows')
    assert len(windows) == 3 * 32 and [line[-1] for line in windows[:3]] == ['0', '1', '2']
