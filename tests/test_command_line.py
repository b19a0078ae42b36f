import sys
from pathlib import Path
from pickle import UnpicklingError

import pytest

from cvrl_mm.command_line import (
    check_device,
    check_videos,
    pass_on_randomness,
    plain_errors,
    read_config,
)
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
        ('test.py', ['gone.py', 'gone.pth']),
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
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f'{Path(tool).stem}: .*gone'):
        run_script(monkeypatch, tool, *arguments)
