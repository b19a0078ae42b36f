"""The config of docs/detection.md for own boxes and actions."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from tests.configs.small import run_two_steps
from tools.data.make_synthetic_ava import START, write_synthetic_ava

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / 'docs/detection.md').read_text().split('## Your own boxes and actions')[1]
NUMBERS = {'12': '1', '17': '2', '64': '3'}  # of the actions; seconds count from the file's start


def test_own_videos_train_and_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_synthetic_ava(Path('generated'), num_train=2, num_val=1)
    mine = Path('data/mine')
    mine.mkdir(parents=True)
    Path('generated/videos').rename(mine / 'videos')
    for split in ('train', 'val'):
        rows = Path(f'generated/annotations/{split}.csv').read_text().splitlines()[:8]
        own = []
        for name, second, *box, action, person in (row.split(',') for row in rows):
            own.append([name, str(int(second) - START), *box, NUMBERS[action], person])
        (mine / f'{split}.csv').write_text('\n'.join(map(','.join, own)))
    (form,) = re.findall('^item {.+?^}\n', SECTION, re.M | re.S)
    (mine / 'actions.pbtxt').write_text(''.join(form.replace('1', number) for number in '123'))
    text = re.search(r'```python\n(.+?)```', SECTION, re.S)[1]
    Path('mine.py').write_text(text.replace("'configs/", f"'{ROOT}/configs/"))
    run_two_steps(Config.fromfile('mine.py'), tmp_path)
