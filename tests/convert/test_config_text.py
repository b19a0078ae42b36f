import pytest
from mmengine.config import Config

from cvrl_mm.convert.config_text import read_config_text, without_folders


def test_a_dumped_config_is_read_as_mmengine_reads_it():
    config = Config(
        dict(
            model=dict(type='CVRL', backbone=dict(depth=18, widths=[1, -2.5, None], on=True)),
            betas=(0.9, 0.99),
            odd={'a-b': dict(x=1), '1': 'text'},
        )
    )
    assert read_config_text(config.pretty_text) == config.to_dict()


def test_code_is_left_out_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """import os
a = os.mkdir('x')
b = dict(c=os.mkdir('x'))
d = dict(e=dict(f=1))
h = [dict(i=x) for x in (1, 2)]
j = __import__('os').mkdir('x')
"""
    assert read_config_text(text) == dict(d=dict(e=dict(f=1)))
    assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize('text', ['a = (', '(' * 100_000, '\0'])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match='not Python source'):
        read_config_text(text)


def test_folders_of_absolute_paths_are_left_out():
    text = (
        "a = '/home/me/train.txt'\n"
        'b = dict(video="/data/my videos", root=\'/data/x/\')\n'
        "c = 'C:\\\\Users\\\\me\\\\x.pth'\n"
        "d = 'https://host/x.pth'\ne = 'data/k400/x.txt'\nf = 4 / 2 / 1\n"
    )
    assert read_config_text(without_folders(text)) == dict(
        a='train.txt',
        b=dict(video='my videos', root=''),
        c='x.pth',
        d='https://host/x.pth',
        e='data/k400/x.txt',
    )
