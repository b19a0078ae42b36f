"""The K400 pre-training, turned down until an epoch takes a second."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

CONFIG = Path(__file__).parents[1] / 'configs' / 'cvrl' / 'pretrain_k400.py'


@HOOKS.register_module()
class SignalHook(Hook):
    """Send signals to the process group of the last rank, unless the job has been restarted.

    Its loader workers are in this group, as when launchers and terminals send signals.
    """

    priority = 'LOWEST'

    def __init__(self, step: int, signals: Sequence[int]) -> None:
        self.step, self.signals = step, signals

    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        restarted = os.environ.get('TORCHELASTIC_RESTART_COUNT', '0') != '0'
        if runner.iter == self.step and runner.rank == runner.world_size - 1 and not restarted:
            for signum in self.signals:
                os.killpg(0, signum)


def small_config(data: Path, work_dir: Path, **options: object) -> Config:
    """Three epochs of four steps over the generated videos, with every default hook."""
    cfg = Config.fromfile(CONFIG)
    sizes = {
        'train_dataloader.dataset.ann_file': str(data / 'train.txt'),
        'train_dataloader.dataset.data_prefix.video': str(data),
        'train_dataloader.batch_size': 4,
        'train_dataloader.num_workers': 2,
        'train_dataloader.dataset.pipeline.1.clip_len': 4,
        'train_dataloader.dataset.pipeline.3.transforms.1.scale': (32, 32),
        'model.backbone.depth': 18,
        'model.backbone.width': 0.125,
        'model.cls_head.in_channels': 64,
        'model.cls_head.hidden_channels': 16,
        'optim_wrapper.optimizer.lr': 0.02,
        'train_cfg.max_epochs': 3,
        'launcher': 'pytorch' if 'RANK' in os.environ else 'none',
        'work_dir': str(work_dir),
    }
    cfg.merge_from_dict({**sizes, **options})
    return cfg


def counted_in_steps(steps: int, interval: int) -> dict:
    """Settings of a run that knows no epochs."""
    return {
        'train_cfg': dict(
            _delete_=True, type='SeededIterLoop', max_iters=steps, val_interval=steps
        ),
        'train_dataloader.sampler.type': 'InfiniteSampler',
        'default_hooks.checkpoint.by_epoch': False,
        'default_hooks.checkpoint.interval': interval,
        'log_processor.by_epoch': False,
        'param_scheduler': [dict(type='CosineAnnealingLR', T_max=steps, by_epoch=False)],
    }


def pretrain(data: Path, work_dir: Path, options: dict, step: int = 0, *signals: int) -> None:
    """Train; the last rank gets ``signals`` before step ``step``."""
    Config.pretty_text = property(lambda self: '')  # laying it out takes longer than the training
    cfg = small_config(data, work_dir, **options)
    cfg.custom_hooks = [dict(type='SignalHook', step=step, signals=[*map(int, signals)])]
    Runner.from_cfg(cfg).train()


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The model's and the optimizer's state."""
    loaded = torch.load(checkpoint, weights_only=True)
    momenta = loaded['optimizer']['state']
    return {
        **loaded['state_dict'],
        **{f'momentum.{i}': s['momentum_buffer'] for i, s in momenta.items()},
    }


def assert_same(first: Path, second: Path) -> None:
    """Two checkpoints hold the same weights and momenta, bit for bit."""
    expected, found = weights(first), weights(second)
    assert expected.keys() == found.keys()
    different = [k for k in expected if not torch.equal(expected[k], found[k])]
    assert not different
    assert all(v.isfinite().all() for v in expected.values())
