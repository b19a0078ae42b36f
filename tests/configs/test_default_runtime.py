"""The runtime of all configs: what a run logs, and where to."""

from pathlib import Path
from uuid import uuid4

import pytest
import torch
from mmaction.registry import DATASETS
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.runner import Runner
from torch.utils.data import Dataset

K400 = Path(__file__).parents[2] / 'configs' / 'cvrl' / 'pretrain_k400.py'
FIGURES = ('loss', 'accuracy', 'entropy', 'lr', 'regularization_loss')
# The line of the README that adds a backend.
TENSORBOARD = (
    "visualizer = dict(vis_backends=[dict(type='LocalVisBackend'), "
    "dict(type='TensorboardVisBackend')])\n"
)


@DATASETS.register_module(force=True)
class NoiseClips(Dataset):
    """Two pairs of clips of noise."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict:
        clips = torch.randint(256, (2, 3, 2, 16, 16), dtype=torch.uint8)
        return dict(inputs=clips, data_samples=ActionDataSample())


def test_one_line_sends_the_contrastive_figures_to_tensorboard(tmp_path: Path):
    pytest.importorskip('tensorboard')
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tmp_path / 'leaf.py').write_text(f"_base_ = '{K400}'\n{TENSORBOARD}")
    cfg = Config.fromfile(tmp_path / 'leaf.py')
    cfg.model.backbone.update(depth=18, width=0.125)
    cfg.model.cls_head.update(in_channels=64, hidden_channels=8)
    cfg.train_dataloader.dataset = dict(type='NoiseClips')
    cfg.train_dataloader.update(batch_size=2, num_workers=0, persistent_workers=False)
    cfg.train_cfg.max_epochs = 1
    cfg.default_hooks.logger.interval = 1
    cfg.update(work_dir=str(tmp_path / 'run'), experiment_name=uuid4().hex, sync_bn=None)
    Runner.from_cfg(cfg).train()
    (events,) = tmp_path.glob('run/*/vis_data/events.out.tfevents.*')
    accumulator = EventAccumulator(str(events)).Reload()
    assert set(accumulator.Tags()['scalars']) >= set(FIGURES)
    (loss,) = accumulator.Scalars('loss')
    assert 0 < loss.value < 2 * (20 + 1.1)  # two directions, three candidates, temperature 0.1
