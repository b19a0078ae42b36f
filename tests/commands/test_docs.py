"""Links, paths, options and configs in the README and the other pages exist."""

import re
import shlex
from pathlib import Path

import mmaction
import pytest
from mmaction.registry import TRANSFORMS
from mmengine.config import Config

import cvrl_mm  # noqa: F401  registers the transforms

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


def test_options_exist():
    """Each option in a command occurs in a program of this repository or of MMAction2."""
    (host,) = Path(mmaction.__file__).parent.glob('.mim/tools')
    sources = [*(ROOT / 'tools').rglob('*.*'), ROOT / 'cvrl_cli.py', ROOT / 'cvrl_mm/runtime.py']
    sources += [host / 'train.py', host / 'test.py']
    known = ' '.join(path.read_text() for path in sources if path.suffix in ('.py', '.sh'))
    for words in (words for page in PAGES for words in commands(page)):
        if words[0] == 'torchrun':  # its own options come before the script
            words = words[next((i for i, x in enumerate(words) if x.startswith('tools/')), 0) :]
        for option in (word.partition('=')[0] for word in words if word.startswith('--')):
            bare = option.removeprefix('--').removeprefix('no-')  # as in the tables of cvrl_cli.py
            assert option in known or repr(bare) in known, words


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
