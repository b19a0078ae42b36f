import os
from pathlib import Path

import pytest
import torch
from mmengine.dist import get_rank
from mmengine.registry import OPTIM_WRAPPERS
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from cvrl_mm.engine import BadVideosHook, steps
from tests.ranks import run_ranks
from tests.toy import ToyModel, toy_runner


class Loaded:
    """A batch of four samples, some of which stand in for others."""

    def __init__(self, bad: dict[int, list[tuple[str, str]]]) -> None:
        self.bad, self.steps = bad, 0

    def __call__(self, samples: list[dict]) -> dict:
        self.steps += 1
        elements = [BaseDataElement(metainfo=dict(unreadable=[])) for _ in samples]
        for i, pair in enumerate(self.bad.get(self.steps, [])):
            elements[i].set_metainfo(dict(unreadable=[pair]))
        return dict(x=torch.stack([s['x'] for s in samples]), data_samples=elements)


def runner(folder: Path, bad: dict, **arguments: object) -> Runner:
    runner = toy_runner(
        folder,
        length=48,
        custom_hooks=[dict(type='BadVideosHook', **arguments)],
        log_level='INFO',
    )
    runner._train_dataloader['collate_fn'] = Loaded(bad)
    forward = runner.model.forward
    runner.model.forward = lambda x, mode, data_samples: forward(x, mode)
    return runner


def test_each_file_is_written_once_and_the_share_is_reported(tmp_path: Path, capfd):
    a, b = ('v/a b.mp4', 'Error reading 0 bytes'), ('v/ü.mp4', 'no frames')
    bad = {1: [a], 2: [b], 14: [a]}  # 12 steps an epoch, 4 samples each
    runner(tmp_path, bad).train()
    expected = 'v/a b.mp4\tError reading 0 bytes\nv/ü.mp4\tno frames\n'
    assert (tmp_path / 'bad_videos.txt').read_text('utf-8') == expected
    log = capfd.readouterr().err + ''.join(p.read_text() for p in tmp_path.glob('*/*.log'))
    assert '2 of 48 samples (4.17%) were replaced' in log
    assert '1 of 48 samples (2.08%) were replaced' in log

    # A later start of the same run
    odd = ('v/\x1c\u2028\udcff.mp4', 'no frames')  # any characters and bytes
    runner(tmp_path, {3: [a], 4: [odd]}).train()
    found = (tmp_path / 'bad_videos.txt').read_bytes().decode(errors='surrogateescape')
    assert found == expected + '\t'.join(odd) + '\n'
    runner(tmp_path, {3: [odd]}).train()
    assert len((tmp_path / 'bad_videos.txt').read_bytes()) == len(os.fsencode(found))


def test_a_seeded_loop_never_replaces_in_silence(tmp_path: Path):
    run = runner(tmp_path, {1: [('a.mp4', 'no frames')]})
    run._hooks = []  # as in a config that does not name the hook
    run._train_loop = dict(type='SeededEpochLoop', max_epochs=1)
    run.train()
    assert (tmp_path / 'bad_videos.txt').read_text() == 'a.mp4\tno frames\n'


@pytest.mark.parametrize('interval, stops_at', [(4, 3), (50, 12)])
def test_stops_above_the_share(interval: int, stops_at: int, tmp_path: Path):
    bad = {step: [(f'{step}.mp4', 'gone')] for step in (2, 3, 4)}
    stopped = runner(tmp_path, bad, interval=interval)
    with pytest.raises(RuntimeError, match=r'3 of the \d+ videos .* more than max_share=5.0%'):
        stopped.train()
    assert stopped.iter == stops_at
    assert len((tmp_path / 'bad_videos.txt').read_text().splitlines()) == 3


def on_two_ranks(folder: Path, max_share: float) -> dict:
    """Rank 1 alone finds bad files, one of which rank 0 finds as well."""
    shared = ('shared.mp4', 'gone')
    bad = {1: [shared]} if get_rank() == 0 else {2: [shared], 3: [('own.mp4', 'text')]}
    with_bad = runner(folder, bad, interval=5, max_share=max_share)
    try:
        with_bad.train()
    except RuntimeError as error:
        return dict(error=str(error), step=with_bad.iter)
    return dict(error='', step=with_bad.iter)


@pytest.mark.parametrize('max_share, step', [(0.5, 12), (0.05, 4)])
def test_ranks_share_one_record_and_stop_together(max_share: float, step: int, tmp_path: Path):
    ends = run_ranks(on_two_ranks, 2, tmp_path, tmp_path / 'work', max_share)
    assert [end['step'] for end in ends] == [step, step]
    assert ends[0]['error'] == ends[1]['error'] and bool(ends[0]['error']) == (step == 4)
    lines = (tmp_path / 'work' / 'bad_videos.txt').read_text().splitlines()
    assert sorted(lines) == ['own.mp4\ttext', 'shared.mp4\tgone']


def test_a_share_in_per_cent_is_refused():
    with pytest.raises(ValueError, match='max_share'):
        BadVideosHook(max_share=5)


# -- the loss ---------------------------------------------------------------------------------


@pytest.mark.parametrize('device, dtype', [('cuda', torch.bfloat16), ('cpu', torch.float32)])
def test_casts_the_forward_pass_on_an_accelerator_and_keeps_float32_weights(
    device: str, dtype: torch.dtype, monkeypatch
):
    monkeypatch.setattr(steps, 'get_device', lambda: device)
    layer = torch.nn.Linear(4, 2)
    wrapper = OPTIM_WRAPPERS.build(
        dict(type='AutocastOptimWrapper', optimizer=torch.optim.SGD(layer.parameters(), lr=0.1))
    )
    x = torch.randn(3, 4)
    with wrapper.optim_context(layer):
        y = layer(x)
    assert y.dtype == dtype
    before = layer.weight.detach().clone()
    wrapper.update_params(y.float().sum())
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(
        before - layer.weight, 0.1 * x.sum(0).expand(2, 4), rtol=2e-2, atol=1e-3
    )
    assert layer(x).dtype == torch.float32


class Diverging(ToyModel):
    """Its loss is no number in the last step of the second epoch."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value, self.steps = value, 0

    def train_step(self, data: dict, optim_wrapper: object) -> dict:
        self.steps += 1
        return dict(loss=torch.tensor(self.value if self.steps == 4 else 1.0))


def named_batch(samples: list[dict]) -> dict:
    names = ['a.mp4', 'b c.mp4']
    return dict(data_samples=[BaseDataElement(metainfo=dict(filename=n)) for n in names])


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_stops_at_a_loss_that_is_not_finite(value: float, tmp_path: Path):
    diverging = toy_runner(
        tmp_path,
        model=Diverging(value),
        custom_hooks=[dict(type='FiniteLossHook')],
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', interval=1)),
    )
    diverging._train_dataloader['collate_fn'] = named_batch
    with pytest.raises(FloatingPointError, match=r'step 4 is .* 0\.1\. .*a\.mp4, b c\.mp4'):
        diverging.train()
    assert [p.name for p in tmp_path.glob('*.pth')] == ['epoch_1.pth']


def test_logs_half_the_decay_times_the_squared_norm_of_kernels(tmp_path: Path):
    weight_decay = 0.02
    run = toy_runner(
        tmp_path,
        optim_wrapper=dict(
            type='OptimWrapper',
            optimizer=dict(type='SGD', lr=0.1, weight_decay=weight_decay),
            paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
        ),
        custom_hooks=[dict(type='RegularizationLossHook')],
    )
    run.train()
    history = run.message_hub.get_scalar('train/regularization_loss')
    squared = run.model.layer.weight.square().sum().item()
    assert history.current() == pytest.approx(weight_decay / 2 * squared, rel=1e-6)
    assert len(history.data[0]) == 4
