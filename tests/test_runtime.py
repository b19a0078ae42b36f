import copy
import re
import sys
from pathlib import Path
from pickle import UnpicklingError

import pytest
from mmaction.registry import MODELS
from mmengine.config import Config

from cvrl_mm.runtime import (
    KEYS,
    pass_on_randomness,
    plain_errors,
    read_config,
    read_options,
    run_host_tool,
)
from tests.script import run_cvrl
from tests.videos import encode

CONFIGS = Path(__file__).parents[1] / 'configs'


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        ('model = dict(\n', 'line 1'),
        ('x = 1\n', 'lacks model, test_dataloader'),
        ("_base_ = 'gone.py'\n", 'gone.py'),
    ],
)
def test_a_config_that_is_none(content: str, said: str, tmp_path: Path):
    (tmp_path / 'a.py').write_text(content)
    with pytest.raises((OSError, ValueError), match=said):
        read_config(tmp_path / 'a.py', 'model', 'test_dataloader')


@pytest.mark.parametrize(
    ('given', 'passed_on'),
    [
        ('a.py', 'a.py'),
        (
            'a.py --seed=7 --cfg-options x=1 --deterministic',
            'a.py --cfg-options x=1 --cfg-options randomness.seed=7 randomness.deterministic=True',
        ),
    ],
)
def test_seeds_reach_configs_that_have_one(given: str, passed_on: str, monkeypatch):
    monkeypatch.setattr('sys.argv', ['train.py', *given.split()])
    pass_on_randomness()
    assert sys.argv == ['train.py', *passed_on.split()]


class OwnError(RuntimeError):
    __module__ = 'cvrl_mm.somewhere'


@pytest.mark.parametrize(
    'error',
    [
        FileNotFoundError(2, 'gone', 'a.pth'),
        ValueError('bad'),
        UnpicklingError('damaged'),
        OwnError('own'),
        ValueError('names control a terminal: \x1b[2J\nb'),
    ],
)
def test_a_mistake_ends_the_program_with_its_message(error: Exception, monkeypatch):
    monkeypatch.setattr('sys.argv', ['tools/tool.py'])
    with pytest.raises(SystemExit) as leaving, plain_errors():
        raise error
    said = str(leaving.value)
    assert said.startswith('tool: ') and error.args[-1][:3] in said
    assert all(line.isprintable() for line in said.split('\n'))


def test_other_errors_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), plain_errors():
        raise ZeroDivisionError
    with pytest.raises(SystemExit, match='xyz'), plain_errors(only_own=True):
        read_options(CONFIG, ['xyz=1'])
    with pytest.raises(SystemExit, match='dept'), plain_errors(only_own=True):  # of a config
        MODELS.build(dict(type='R3DSlow', dept=18))
    with pytest.raises(ValueError, match='abc'), plain_errors(only_own=True):
        int('abc')


def test_ctrl_c_ends_a_program():
    with pytest.raises(SystemExit) as leaving, plain_errors():
        raise KeyboardInterrupt
    assert leaving.value.code == 130


CONFIG = Config(dict(model=dict(cls_head=dict(temperature=0.1)), data_root='data'))


@pytest.mark.parametrize(
    ('option', 'named'),
    [
        ('optim_wraper.lr=1', 'optim_wrapper'),
        ('xyz=1', 'xyz'),
        ('data_root=other', 'data_root'),
        ('load_from', 'load_from'),
    ],
)
def test_options_that_nothing_reads(option: str, named: str):
    with pytest.raises(ValueError, match=named):
        read_options(CONFIG, [option])


def test_options_are_parsed():
    given = ['load_from=a.pth', 'model.cls_head.temperature=1']
    options = read_options(CONFIG, given)
    assert options == {'load_from': 'a.pth', 'model.cls_head.temperature': 1}


def test_options_on_a_variable_name_the_keys_that_work():
    config = Config.fromfile(CONFIGS / 'cvrl/pretrain_k400.py')
    for option, key in (
        ('sample.density', 'train_dataloader.dataset.pipeline.1.density'),
        ('blur.kernel_size', 'train_dataloader.dataset.pipeline.3.transforms.5.kernel_size'),
        ('augment.transforms.1.scale', 'train_dataloader.dataset.pipeline.3.transforms.1.scale'),
        ('pack.1.type', 'train_dataloader.dataset.pipeline.5.type'),
        ('data_root', 'train_dataloader.dataset.data_prefix.video'),
    ):
        with pytest.raises(ValueError, match=f'{re.escape(key)}( or|\\.$)'):
            read_options(config, [f'{option}=1'])
        changed = copy.deepcopy(config)
        changed.merge_from_dict(read_options(config, [f'{key}=1']))
        assert changed.train_dataloader != config.train_dataloader, key


def test_a_variable_that_a_leaf_has_changed_names_its_copy():
    config = Config.fromfile(CONFIGS / 'miniature/cvrl_motion.py')  # the base's has fps
    with pytest.raises(ValueError, match=r'train_dataloader\.dataset\.pipeline\.1\.clip_len'):
        read_options(config, ['sample.clip_len=4'])


def test_no_variable_of_a_base_is_an_option():
    """As its name alone, or within it; what is a key of a run may not be one by chance."""
    for path in sorted((CONFIGS / '_base_').rglob('*.py')):
        config = Config.fromfile(path)
        for name in {*config} - KEYS:
            for key in (name, f'{name}.typo', f'{name}.0.type'):
                with pytest.raises(ValueError, match=key):
                    read_options(config, [f'{key}=1'])


def test_mmactions_script_runs(monkeypatch, capsys, tmp_path):
    (tmp_path / 'a.py').write_text('model = dict()\n')
    monkeypatch.setattr('sys.argv', ['train.py', str(tmp_path / 'a.py'), '--help'])
    with pytest.raises(SystemExit, match='0'):
        run_host_tool('train.py')
    assert '--auto-scale-lr' in capsys.readouterr().out


@pytest.mark.parametrize(
    'arguments',
    [
        ['train', '--work-dir', 'work', 'gone.py'],
        ['train', 'a.py', '--resume', '--cfg-options', 'gone=1'],
        ['train', 'a.py', '--cfg-options', 'train_dataloader.dataset.ann_file=gone.txt'],
        ['train', 'a.py', '--cfg-options', 'load_from=gone.pth'],
        ['test', 'a.py', 'a.pth', '--cfg-options', 'test_dataloader.dataset.ann_file=gone.txt'],
        ['test', 'a.py', 'a.pth', '--cfg-options', 'gone.x=1', '--launcher', 'none'],
        ['evaluate', 'linear', 'gone.pth', '--config', 'gone.py'],
        ['features', 'gone.pth', '.', '-o', 'a.npz'],
        ['list', 'ucf101', 'gone'],
    ],
)
def test_commands_say_what_is_missing(arguments: list[str], monkeypatch, tmp_path: Path):
    encode(tmp_path / 'a.mp4')
    (tmp_path / 'a.py').write_text('model = dict()\ntest_dataloader = train_dataloader = dict()\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f'^cvrl {arguments[0]}: .*gone'):
        run_cvrl(monkeypatch, *arguments)
