"""Commands that evaluate an encoder by a config or by labelled videos."""

from argparse import ArgumentParser
from pathlib import Path
from unittest.mock import create_autospec

import pytest

import cvrl_cli
from cvrl_cli import evaluate as command
from cvrl_mm.evaluation.protocols import evaluate_config
from cvrl_mm.runtime import start_evaluation
from tests.own_videos.folder import small_encoder

CONFIG = str(Path(__file__).parents[2] / 'configs/miniature/linear_motion.py')


def test_results_are_printed(tmp_path: Path, monkeypatch, capsys):
    result = {'checkpoint': 'x', 'R@1': 0.25, 'lr': 8.0, 'interval95': {'R@1': 0.125}}
    evaluate = create_autospec(evaluate_config, return_value=result)
    monkeypatch.setattr('cvrl_mm.evaluation.protocols.evaluate_config', evaluate)
    given = ['few_shot', 'random', '--config', CONFIG]
    cvrl_cli.main(['evaluate', *given, '--train-views', '3', '--out', str(tmp_path)])
    shown = capsys.readouterr().out
    assert 'R@1 25.00% ± 12.50\nlr 8\n' in shown
    assert evaluate.call_args.args[0] == 'few_shot'
    assert evaluate.call_args.args[2:] == ('random', tmp_path, 3)


def test_labelled_folders_are_evaluated(motion_set: Path, tmp_path: Path, monkeypatch, capsys):
    videos = sorted((motion_set / 'videos').iterdir())
    for i, video in enumerate(videos[:20]):
        folder = tmp_path / 'ab'[i % 2]
        folder.mkdir(exist_ok=True)
        (folder / video.name).symlink_to(video)
    small_encoder().save(tmp_path / 'encoder.safetensors')
    given = [str(tmp_path / 'encoder.safetensors'), '--labels', str(tmp_path)]
    cvrl_cli.main(['evaluate', 'knn', *given])
    shown = capsys.readouterr().out
    assert '20 videos of 2 classes' in shown and 'knn_top1' in shown and '50.0%' in shown
    for wrong in (['evaluate', 'k-nn', *given], ['evaluate', 'knn', given[0]]):
        with pytest.raises(SystemExit, match=r'few_shot|--labels'):
            cvrl_cli.main(wrong)


@pytest.mark.parametrize(
    ('checkpoint', 'out'),
    [
        ('runs/a/epoch_1.pth', 'runs/a/epoch_1_linear_motion'),
        ('random', 'work_dirs/random_linear_motion'),
        ('https://x.org/a/enc.pth', 'work_dirs/enc_linear_motion'),
        ('hf://owner/enc', 'work_dirs/enc_linear_motion'),
    ],
)
def test_the_results_lie_beside_the_checkpoint(checkpoint: str, out: str):
    options = ['--cfg-options', 'model.cls_head.num_classes=3']
    command.add_arguments(parser := ArgumentParser())
    args = parser.parse_args(['knn', checkpoint, '--config', CONFIG, *options])
    config, folder = start_evaluation(args, 'model')
    assert config.model.cls_head.num_classes == 3 and folder == Path(out)
