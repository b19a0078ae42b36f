from pathlib import Path

import pytest

from cvrl_cli import evaluation_parser
from cvrl_mm.evaluation.evaluation_arguments import start_evaluation

CONFIG = str(Path(__file__).parents[2] / 'configs/miniature/linear_motion.py')


def test_options_change_the_config_and_the_folder_is_beside_the_checkpoint():
    options = ['--cfg-options', 'test_dataloader.num_workers=0', 'model.cls_head.num_classes=3']
    options += ['--cfg-options', 'model.backbone.stage_blocks=(1,1)']
    args = evaluation_parser(None).parse_args([CONFIG, 'runs/a/epoch_1.pth', *options])
    config, out = start_evaluation(args, 'model')
    assert config.test_dataloader.num_workers == 0 and config.model.cls_head.num_classes == 3
    assert config.model.backbone.stage_blocks == (1, 1)
    assert out == Path('runs/a/epoch_1_linear_motion')


def test_a_config_without_a_needed_key_is_refused():
    args = evaluation_parser(None).parse_args([CONFIG, 'untrained'])
    with pytest.raises(ValueError, match='lacks nothing_like_it'):
        start_evaluation(args, 'nothing_like_it')


def test_an_option_without_a_value_is_refused():
    args = evaluation_parser(None).parse_args([CONFIG, 'untrained', '--cfg-options', 'model'])
    with pytest.raises(ValueError, match="takes KEY=VALUE, got 'model'"):
        start_evaluation(args, 'model')


def test_an_option_that_no_config_has_is_refused():
    options = ['--cfg-options', 'test_dataloder.num_workers=0']
    args = evaluation_parser(None).parse_args([CONFIG, 'untrained', *options])
    with pytest.raises(ValueError, match='did you mean test_dataloader'):
        start_evaluation(args, 'model')
