"""Links and commands in the README and the other pages lead to what exists."""

import ast
import re
import shlex
from pathlib import Path

import mmaction
import pytest
from mmaction.registry import TRANSFORMS
from mmengine.config import Config

import cvrl_mm  # noqa: F401  registers the transforms
from cvrl_cli import COMMANDS, TOOLS, pretrain_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / 'README.md', ROOT / 'configs' / 'README.md', *(ROOT / 'docs').rglob('*.md')]
SCRIPTS = sorted((ROOT / 'tools').rglob('*.py'))
BLOCK = re.compile(r'^ *```(\w*)\n(.*?)^ *```', re.M | re.S)
PARTS_OF_THIS_FOLDER = re.compile(
    r'(?<![\w/.-])((?:tools|configs|docs|tests|cvrl_mm)/[\w/.-]*\w)(?![\w*{])'
)
LAUNCHERS = ('dist_train.sh', 'dist_test.sh', 'slurm_train.sh', 'train_and_test.sh', 'ablation.sh')


def example(script: Path) -> str:
    """The examples of a script's docstring, as a page."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding='utf-8'))) or ''
    return f'```bash\n{text.partition("Example")[2]}\n```\n'


def code(text: str) -> list[str]:
    """The lines of a page's blocks for a shell, and the code within its sentences."""
    blocks = [body for kind, body in BLOCK.findall(text) if kind == 'bash']
    lines = [line for body in blocks for line in body.replace('\\\n', ' ').splitlines()]
    spans = re.findall(r'`([^`]+)`', BLOCK.sub('', text))
    return [' '.join(line.split()) for line in [*lines, *spans] if line.strip()]


def commands(text: str) -> list[str]:
    """The commands of a page."""
    starts = ('python ', 'bash ', 'tools/', 'cvrl ', 'torchrun ', 'mim ')
    return [line for line in code(text) if line.startswith(starts) and ' ' in line]


def source_of_options(words: list[str]) -> str | None:
    """The text in which a command's options are defined; None for programs of others."""
    if words[0] == 'cvrl':
        if words[1] == 'pretrain':
            return pretrain_parser('cvrl').format_help()
        if words[1] == 'doctor':
            return (ROOT / 'cvrl_cli.py').read_text()
        text = (ROOT / 'tools' / TOOLS[words[1]][0]).read_text()
        return text + (ROOT / 'cvrl_cli.py').read_text() if words[1] in COMMANDS else text
    if 'cvrl_mm.doctor' in words:
        return (ROOT / 'cvrl_cli.py').read_text()
    script = next((word for word in words if word.startswith('tools/')), None)
    if script is None:
        return None
    name = script.removeprefix('tools/')
    text = (ROOT / script).read_text()
    if name == 'pretrain_videos.py':
        text += pretrain_parser('cvrl').format_help()
    if name in (*LAUNCHERS, 'train.py', 'test.py'):
        (folder,) = Path(mmaction.__file__).parent.glob('.mim/tools')
        text += (folder / 'train.py').read_text() + (folder / 'test.py').read_text()
        text += (ROOT / 'cvrl_mm/cli.py').read_text()
    return text


@pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_exist(page: Path):
    text = page.read_text(encoding='utf-8')
    links = re.findall(r'\]\(([^)#\s]+)[^)]*\)', BLOCK.sub('', text))
    lost = [x for x in links if '://' not in x and not (page.parent / x).exists()]
    assert lost == []
    anchors = re.findall(r'\]\(#([^)]+)\)', text)
    headings = re.findall(r'^#+ (.+)$', BLOCK.sub('', text), re.M)
    names = {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}
    assert [anchor for anchor in anchors if anchor not in names] == []
    paths = {part for line in code(text) for part in PARTS_OF_THIS_FOLDER.findall(line)}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def unknown_options(text: str) -> list[str]:
    """The options in a page's commands that the called programs do not have."""
    unknown = []
    for line in commands(text):
        words = shlex.split(line, comments=True)
        source = source_of_options(words) if words else None
        if words and words[0] == 'torchrun':  # its own options come before the script
            words = words[next((i for i, x in enumerate(words) if x.startswith('tools/')), 0) :]
        options = [word.partition('=')[0] for word in words if word.startswith('--')]
        if source is not None:
            unknown += [f'{option}: {line}' for option in options if option not in source]
    return unknown


@pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_exist(page: Path):
    assert unknown_options(page.read_text(encoding='utf-8')) == []


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_of_examples_exist(script: Path):
    assert unknown_options(example(script)) == []


@pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_keys_of_configs_exist(page: Path):
    """``--cfg-options a.b.c=1`` after a config: the config has ``a.b``."""
    unknown = []
    for line in commands(page.read_text(encoding='utf-8')):
        words = shlex.split(line, comments=True)
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
                if node is None:
                    unknown.append(f'{word}: {line}')
                    break
    assert unknown == []


@pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_configs_of_pages_can_be_read(page: Path, tmp_path: Path):
    blocks = BLOCK.findall(page.read_text(encoding='utf-8'))
    for text in (body for kind, body in blocks if kind == 'python' and '_base_ = ' in body):
        (tmp_path / 'leaf.py').write_text(text.replace("'configs/", f"'{ROOT}/configs/"))
        cfg = Config.fromfile(tmp_path / 'leaf.py')
        for step in cfg.get('train_dataloader', {}).get('dataset', {}).get('pipeline', []):
            TRANSFORMS.build(step)
