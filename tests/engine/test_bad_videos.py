import os
from pathlib import Path

import pytest
import torch
from mmengine.dist import get_rank
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from cvrl_mm.engine import BadVideosHook
from tests.ranks import run_ranks
from tests.toy import toy_runner


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

    # A later start of the same run, after a kill has cut the last line
    (tmp_path / 'bad_videos.txt').write_text(expected + 'v/c', 'utf-8')
    odd = ('v/\x1c\u2028\udcff.mp4', 'no frames')  # any characters and bytes
    runner(tmp_path, {3: [a], 4: [odd]}).train()
    found = (tmp_path / 'bad_videos.txt').read_bytes().decode(errors='surrogateescape')
    assert found == expected + 'v/c\n' + '\t'.join(odd) + '\n'
    runner(tmp_path, {3: [odd]}).train()
    assert len((tmp_path / 'bad_videos.txt').read_bytes()) == len(os.fsencode(found))


def test_a_seeded_loop_never_replaces_in_silence(tmp_path: Path):
    run = runner(tmp_path, {1: [('a.mp4', 'no frames')]})
    run._hooks = []  # as in a config that does not name the hook
    run._train_loop = dict(type='SeededEpochLoop', max_epochs=1)
    run.train()
    assert (tmp_path / 'bad_videos.txt').read_text() == 'a.mp4\tno frames\n'


def test_a_few_at_the_start_of_an_epoch_are_no_reason_to_stop(tmp_path: Path):
    bad = {step: [(f'{step}.mp4', 'gone')] for step in (1, 2)}  # 2 of the first 8, and of 48
    runner(tmp_path, bad, interval=2).train()


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


@pytest.mark.parametrize('wrong', [dict(max_share=5), dict(max_share=-0.1), dict(interval=0)])
def test_refuses_arguments_out_of_range(wrong: dict):
    with pytest.raises(ValueError, match=f'{next(iter(wrong))}={next(iter(wrong.values()))}'):
        BadVideosHook(**wrong)
