import signal
import sys
from pathlib import Path
from pickle import UnpicklingError

import pytest
from mmengine.config import Config

from cvrl_mm.command_line import (
    check_config_argument,
    check_device,
    check_options,
    check_videos,
    exit_on_sigterm,
    pass_on_randomness,
    plain_errors,
    plain_own_errors,
    read_config,
)
from cvrl_mm.engine.bad_videos_hook import BadVideosHook
from tests.script import run_script
from tests.videos import encode, write_broken


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        ('model = dict(\n', "Line 1 of the config .*: '\\(' was never closed"),
        ("model = dict(depth=depths['x'])\n", 'cannot be read'),
        ('x = 1\n', 'lacks model, test_dataloader'),
        ("_base_ = 'gone.py'\n", 'gone.py'),
    ],
)
def test_a_config_that_is_none(content: str, said: str, tmp_path: Path):
    (tmp_path / 'a.py').write_text(content)
    with pytest.raises((OSError, ValueError), match=said):
        read_config(tmp_path / 'a.py', 'model', 'test_dataloader')
    with pytest.raises(FileNotFoundError, match='There is no config'):
        read_config(tmp_path / 'b.py')


def test_a_config(tmp_path: Path):
    (tmp_path / 'a.py').write_text('model = dict(depth=18)\n')
    assert read_config(tmp_path / 'a.py', 'model').model.depth == 18


@pytest.mark.parametrize(
    ('given', 'passed_on'),
    [
        ('a.py', 'a.py'),
        ('a.py --resume auto --seed 0', 'a.py --resume auto --cfg-options randomness.seed=0'),
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


@pytest.mark.parametrize(
    ('error', 'said'),
    [
        (FileNotFoundError(2, 'No such file or directory', 'a.pth'), 'a.pth: No such file or'),
        (FileNotFoundError('There is no a.pth.'), 'There is no a.pth.'),
        (ValueError('bad'), 'bad'),
        (UnpicklingError('damaged'), 'damaged'),
    ],
)
def test_a_mistake_ends_the_program_with_a_sentence(error: Exception, said: str, monkeypatch):
    monkeypatch.setattr('sys.argv', ['tools/tool.py'])
    with pytest.raises(SystemExit, match=f'tool: {said}'), plain_errors():
        raise error


CONFIG = Config(
    dict(
        model=dict(cls_head=dict(temperature=0.1), blocks=[dict(width=64)]),
        optim_wrapper=dict(optimizer=dict(lr=0.32)),
        randomness=dict(seed=0),
        data_root='data',
    )
)


@pytest.mark.parametrize(
    ('option', 'value', 'said'),
    [
        ('temperature', 0.2, 'did you mean model.cls_head.temperature'),
        ('optim_wraper.optimizer.lr', 0.1, 'did you mean optim_wrapper'),
        ('xyz', 1, r"no key 'xyz'\."),
        ('optim_wrapper.optimizer.lr', 'abc', r'lr=abc: a value such as 0\.32'),
        ('model.blocks.0.width', 'wide', 'width=wide: a value such as 64'),
        ('randomness.seed', 'one', 'seed=one: a value such as 0'),
    ],
)
def test_options_that_have_no_meaning(option: str, value: object, said: str):
    with pytest.raises(ValueError, match=said):
        check_options(CONFIG, {option: value})


@pytest.mark.parametrize(
    ('option', 'value'),
    [
        ('model.cls_head.temperature', 1),
        ('model.cls_head.new', 'text'),
        ('model.blocks.0.width', None),
        ('load_from', 'a.pth'),
        ('sync_bn', 'torch'),
        ('data_root', 'other'),
        ('auto_scale_lr.enable', True),
    ],
)
def test_options_that_are_merged(option: str, value: object):
    check_options(CONFIG, {option: value})


def test_an_option_that_changes_nothing(monkeypatch, capsys, tmp_path: Path):
    (tmp_path / 'a.py').write_text("model = dict()\ndata_root = 'data'\n")
    options = ['--cfg-options', 'load_from=a.pth', 'data_root=other']
    monkeypatch.setattr('sys.argv', ['train.py', str(tmp_path / 'a.py'), *options])
    check_config_argument()
    said = capsys.readouterr().err
    assert said.count('--cfg-options') == 1
    assert 'data_root is a variable of the config file' in said


def test_a_training_shows_other_errors_with_their_traceback(monkeypatch):
    monkeypatch.setattr('sys.argv', ['tools/train.py'])
    with pytest.raises(SystemExit, match='train: max_share must be in'), plain_own_errors():
        BadVideosHook(max_share=2)
    with pytest.raises(ValueError, match='abc'), plain_own_errors():
        int('abc')


def test_ctrl_c_before_a_training_is_a_word(capsys):
    with pytest.raises(SystemExit) as leaving, plain_own_errors():
        raise KeyboardInterrupt
    assert leaving.value.code == 130
    assert capsys.readouterr().err == '\nInterrupted.\n'


def test_sigterm_ends_the_blocks_of_the_program():
    before = signal.getsignal(signal.SIGTERM)
    try:
        exit_on_sigterm()
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143


def test_other_errors_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), plain_errors():
        raise ZeroDivisionError


def test_videos_are_looked_at(tmp_path: Path):
    encode(tmp_path / 'good.mp4')
    check_videos([tmp_path / 'good.mp4'])
    with pytest.raises(ValueError, match='There is no video gone'):
        check_videos(['gone.mp4'])
    with pytest.raises(ValueError, match='cannot be read'):
        check_videos([tmp_path / 'good.mp4', *write_broken(tmp_path)])


@pytest.mark.parametrize('device', ['xyz', 'cuda:99', 'meta', 'hpu'])
def test_an_unusable_device_is_named(device: str):
    with pytest.raises(ValueError, match=f"The device '{device}' cannot be used: .+"):
        check_device(device)
    check_device('cpu')


@pytest.mark.parametrize(
    ('tool', 'arguments'),
    [
        ('train.py', ['gone.py']),
        ('train.py', ['a.py', '--resume', '--cfg-options', 'gone=1']),
        ('train.py', ['a.py', '--cfg-options', 'gone']),
        ('test.py', ['gone.py', 'gone.pth']),
        ('test.py', ['a.py', 'a.pth', '--cfg-options', 'gone.x=1', '--launcher', 'none']),
        ('linear_probe.py', ['gone.py', 'gone.pth']),
        ('retrieval.py', ['gone.py', 'gone.pth']),
        ('extract_features.py', ['gone.pth', '.', '-o', 'a.npz']),
        ('show_augmentations.py', ['--config', 'gone.py']),
        ('show_neighbours.py', ['gone.py', 'gone.pth', '--gallery', 'a', '--queries', 'b']),
        ('data/make_subset.py', ['gone.txt', 'out.txt', '--percent', '10']),
        ('data/build_list.py', ['ucf101', 'gone']),
        ('benchmarks/loader.py', ['gone.mp4']),
        ('benchmarks/repack.py', ['gone.mp4']),
        ('benchmarks/soak.py', ['gone.mp4']),
    ],
)
def test_tools_say_what_is_missing(tool: str, arguments: list[str], monkeypatch, tmp_path: Path):
    encode(tmp_path / 'a.mp4')
    (tmp_path / 'a.py').write_text('model = dict()\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f'{Path(tool).stem}: .*gone'):
        run_script(monkeypatch, tool, *arguments)
