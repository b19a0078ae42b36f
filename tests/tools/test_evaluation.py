"""The tools that evaluate an encoder by a config: linear_probe and retrieval."""

from pathlib import Path
from unittest.mock import create_autospec

import pytest

from cvrl_cli import evaluation_parser
from cvrl_mm.cli import start_evaluation
from cvrl_mm.evaluation.knn import retrieval
from cvrl_mm.evaluation.linear_probe import cached_linear_probe
from tests.script import run_script

CONFIG = str(Path(__file__).parents[2] / 'configs/miniature/linear_motion.py')


def test_linear_probe(tmp_path: Path, monkeypatch, capsys):
    scores = dict(top1=0.25, top5=0.5)
    result = dict(protocol='cached', train=scores, val=scores, lr=8.0, held_out_top1={'8.0': 0.75})
    probe = create_autospec(cached_linear_probe, return_value=result)
    monkeypatch.setattr('cvrl_mm.evaluation.linear_probe.cached_linear_probe', probe)
    options = ['--train-views', 3, '--out', tmp_path]
    run_script(monkeypatch, 'linear_probe.py', CONFIG, 'untrained', *options)
    shown = capsys.readouterr().out
    assert '25.00%' in shown and '50.00%' in shown and '75.00%' in shown
    assert probe.call_args.args[1:] == ('untrained', tmp_path, 3)


def test_retrieval(tmp_path: Path, monkeypatch, capsys):
    found = create_autospec(retrieval, return_value={'checkpoint': 'untrained', 'R@1': 0.5})
    monkeypatch.setattr('cvrl_mm.evaluation.knn.retrieval', found)
    run_script(monkeypatch, 'retrieval.py', CONFIG, 'untrained', '--out', tmp_path)
    assert 'R@1 50.00%' in capsys.readouterr().out
    assert found.call_args.args[1:] == ('untrained', tmp_path)


@pytest.mark.parametrize(
    ('checkpoint', 'out'),
    [
        ('runs/a/epoch_1.pth', 'runs/a/epoch_1_linear_motion'),
        ('untrained', 'work_dirs/untrained_linear_motion'),
        ('https://x.org/a/enc.pth', 'work_dirs/enc_linear_motion'),
        ('hf://owner/enc', 'work_dirs/enc_linear_motion'),
    ],
)
def test_the_results_lie_beside_the_checkpoint(checkpoint: str, out: str):
    options = ['--cfg-options', 'model.cls_head.num_classes=3']
    args = evaluation_parser(None).parse_args([CONFIG, checkpoint, *options])
    config, folder = start_evaluation(args, 'model')
    assert config.model.cls_head.num_classes == 3 and folder == Path(out)


@pytest.mark.parametrize(
    ('option', 'needed', 'message'),
    [
        ('model', 'model', "'model'"),
        ('test_dataloder.num_workers=0', 'model', 'test_dataloader'),
        ('train_cfg.max_epochs=1', 'nothing_like_it', 'nothing_like_it'),
    ],
)
def test_mistakes_are_named(option: str, needed: str, message: str):
    args = evaluation_parser(None).parse_args([CONFIG, 'untrained', '--cfg-options', option])
    with pytest.raises(ValueError, match=message):
        start_evaluation(args, needed)
