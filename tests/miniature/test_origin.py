import re
from pathlib import Path

import torch

from cvrl_mm.miniature.origin import origin
from tests.script import TOOLS


def test_origin_of_a_checkout_names_its_commit():
    here = origin(TOOLS.parent)
    assert list(here) == ['date', 'commit', 'machine', 'torch']
    assert re.fullmatch(r'\d{4}-\d\d-\d\d', here['date'])
    assert here['commit'] != ''
    assert here['torch'] == torch.__version__


def test_a_folder_without_git_has_no_commit(tmp_path: Path):
    assert origin(tmp_path)['commit'] == 'not in a git repository'
