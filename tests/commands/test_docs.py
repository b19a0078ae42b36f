"""Links, paths, options and configs in the README and the other pages exist."""

import copy
import re
import shlex
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import mmaction
import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config

import cvrl_mm  # noqa: F401  registers the transforms
from cvrl_mm.runtime import KEYS, read_options

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob('*.md'), ROOT / 'configs' / 'README.md', *(ROOT / 'docs').rglob('*.md')]
BLOCK = re.compile(r'^ *```(\w*)\n(.*?)^ *```', re.M | re.S)
PATH = re.compile(r'(?<![\w/.-])((?:tools|configs|docs|tests|cvrl_mm)/[\w/.-]*\w)(?![\w*{])')
pages = pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def code(text: str) -> list[str]:
    """The lines of a page's blocks for a shell, and the code within its sentences."""
    blocks = [body for kind, body in BLOCK.findall(text) if kind == 'bash']
    lines = [line for body in blocks for line in body.replace('\\\n', ' ').splitlines()]
    spans = re.findall(r'`([^`]+)`', BLOCK.sub('', text))
    return [' '.join(line.split()) for line in [*lines, *spans] if line.strip()]


def commands(page: Path) -> list[list[str]]:
    """The words of the commands of a page that run programs of this repository."""
    starts = ('python tools/', 'bash tools/', 'tools/', 'cvrl ', 'torchrun ')
    lines = code(page.read_text(encoding='utf-8'))
    return [shlex.split(x, comments=True) for x in lines if x.startswith(starts) and ' ' in x]


@pages
def test_links_and_paths_exist(page: Path):
    text = page.read_text(encoding='utf-8')
    for link in re.findall(r'\]\(([^)\s]+)\)', BLOCK.sub('', text)):
        name, _, anchor = link.partition('#')
        if '://' in link:
            continue
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r'^#+ (.+)$', BLOCK.sub('', target.read_text()), re.M)
            names = [re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in headings]
            assert anchor in names, link
    paths = {part for line in code(text) for part in PATH.findall(line)}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def options_of(program: str) -> str:
    """A text with the options of a program: its parser's, or its source."""
    (host,) = Path(mmaction.__file__).parent.glob('.mim/tools')
    scripts = [host / f'{name}.py' for name in ('train', 'test') if name in program]
    texts = [path.read_text() for path in (*scripts, ROOT / 'cvrl_mm/runtime.py')]
    if not program.startswith('cvrl '):
        return ' '.join([*texts, (ROOT / program).read_text()])
    command = import_module(f'cvrl_cli.{program.removeprefix("cvrl ")}')
    if not hasattr(command, 'add_arguments'):  # MMAction2's
        return ' '.join(texts)
    command.add_arguments(parser := ArgumentParser())
    actions = [*parser._actions]
    for action in actions:
        if isinstance(action.choices, dict):  # of subcommands
            actions += [x for part in action.choices.values() for x in part._actions]
    return ' '.join(option for action in actions for option in action.option_strings)


def test_options_exist():
    """Each option in a command is one of its program."""
    for words in (words for page in PAGES for words in commands(page)):
        start = next((i for i, x in enumerate(words) if x == 'cvrl' or x[:6] == 'tools/'), None)
        if start is None or words[start + 1 :][:1] == ['--version']:
            continue
        words = words[start:]  # after the options of torchrun
        known = options_of(' '.join(words[: 2 if words[0] == 'cvrl' else 1]))
        if words[0] == 'tools/benchmarks/own_videos.py':
            known += options_of('cvrl pretrain')  # to which it passes options on
        for option in (word.partition('=')[0] for word in words if word.startswith('--')):
            assert option in known, words


@pages
def test_configs_and_their_keys_exist(page: Path, tmp_path: Path):
    for words in commands(page):
        config = next((w for w in words if re.fullmatch(r'configs/\S+\.py', w)), None)
        if config is None or '--cfg-options' not in words:
            continue
        cfg = Config.fromfile(ROOT / config)
        for word in words[words.index('--cfg-options') + 1 :]:
            if word.startswith('--') or '=' not in word:
                break
            node = cfg
            for key in word.partition('=')[0].split('.')[:-1]:
                node = node[int(key)] if key.isdigit() else node.get(key)
                assert node is not None, word
    if page.name == 'extend.md':
        return  # its configs need its code: tests/docs/test_extend.py
    blocks = BLOCK.findall(page.read_text(encoding='utf-8'))
    for text in (body for kind, body in blocks if kind == 'python' and '_base_ = ' in body):
        (tmp_path / 'leaf.py').write_text(text.replace("'configs/", f"'{ROOT}/configs/"))
        for step in Config.fromfile(tmp_path / 'leaf.py').train_dataloader.dataset.pipeline:
            TRANSFORMS.build(step)


def test_other_values_of_a_pretraining_take_effect():
    """Each row of the table changes what a run reads, and what it then builds accepts it."""
    rows = re.findall(r'^\| .*? \| `(\S+=.*)` \|$', (ROOT / 'docs/kinetics.md').read_text(), re.M)
    assert len(rows) > 10
    for row in rows:
        cfg = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
        before = copy.deepcopy(cfg.to_dict())
        cfg.merge_from_dict(read_options(cfg, shlex.split(row)))
        read = {key: x for key, x in cfg.to_dict().items() if key in KEYS and x != before[key]}
        assert {*read} == {option.partition('.')[0] for option in row.split()}, row
        for step in cfg.train_dataloader.dataset.pipeline:
            TRANSFORMS.build(step)
        if 'model' in read:
            with torch.device('meta'):
                MODELS.build(cfg.model)
