"""A model and a runner that train within milliseconds."""

from pathlib import Path
from uuid import uuid4

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import Dataset


class ToyModel(BaseModel):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor, mode: str = 'tensor') -> dict | Tensor:
        y = self.norm(self.layer(x))
        return dict(loss=y.square().mean()) if mode == 'loss' else y


class ToyData(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict:
        return dict(x=torch.randn(4, generator=torch.Generator().manual_seed(index)))


def toy_runner(
    work_dir: Path, length: int = 8, batch_size: int = 4, drop_last: bool = False, **kwargs
) -> Runner:
    """A runner of two epochs, with ``kwargs`` in place of its own settings."""
    torch.manual_seed(0)
    settings = dict(
        model=ToyModel(),
        work_dir=str(work_dir),
        train_dataloader=dict(
            dataset=ToyData(length),
            batch_size=batch_size,
            drop_last=drop_last,
            sampler=dict(type='DefaultSampler', shuffle=True),
            num_workers=0,
            collate_fn=dict(type='default_collate'),
        ),
        train_cfg=dict(type='SeededEpochLoop', max_epochs=2),
        optim_wrapper=dict(
            type='OptimWrapper',
            optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
        default_scope='mmaction',
        experiment_name=uuid4().hex,  # mmengine keeps its singletons by this name
        log_level='WARNING',
    )
    settings |= kwargs
    cfg = settings.setdefault('cfg', Config())
    for name in {'optim_wrapper', 'param_scheduler', 'train_cfg'} & settings.keys():
        cfg[name] = settings[name]
    return Runner(**settings)
