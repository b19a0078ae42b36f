from pathlib import Path

import pytest
import torch

from tests.toy import ToyModel, toy_runner


@pytest.mark.parametrize(
    ('loader', 'complaint'),
    [
        (dict(length=3, batch_size=4, drop_last=True), 'holds 3 videos, fewer than one batch of 4'),
        (dict(length=0, batch_size=4), 'holds 0 videos'),
        (dict(length=3, batch_size=1), 'batch of one video'),
        (dict(length=9, batch_size=4), 'leave a last batch of one'),
    ],
)
def test_refuses_before_the_first_step(loader: dict, complaint: str, tmp_path: Path):
    runner = toy_runner(tmp_path, custom_hooks=[dict(type='NegativesCheckHook')], **loader)
    with pytest.raises(ValueError, match=complaint):
        runner.train()
    assert runner.iter == 0


class Head(torch.nn.Module):
    equal_batches = False


class Contrastive(ToyModel):
    def __init__(self) -> None:
        super().__init__()
        self.cls_head = Head()


@pytest.mark.parametrize('drop_last', [True, False])
def test_tells_the_head_whether_batches_have_one_size(drop_last: bool, tmp_path: Path):
    hooks = [dict(type='NegativesCheckHook')]
    loader = dict(length=10, drop_last=drop_last)
    runner = toy_runner(tmp_path, model=Contrastive(), custom_hooks=hooks, **loader)
    runner.train()
    assert runner.model.cls_head.equal_batches == drop_last


@pytest.mark.parametrize('loader', [dict(length=9, drop_last=True), dict(length=10)])
def test_lets_other_batches_pass(loader: dict, tmp_path: Path):
    runner = toy_runner(
        tmp_path, batch_size=4, custom_hooks=[dict(type='NegativesCheckHook')], **loader
    )
    runner.train()
    assert runner.epoch == 2
