import json
from pathlib import Path

import pytest

from tests.script import run_script


def test_prints_both_columns(tmp_path: Path, monkeypatch, capsys):
    for i, accuracy in enumerate((0.929, 0.92, 0.917)):
        folder = tmp_path / str(i) / '20260101_000000'
        folder.mkdir(parents=True)
        (folder / '20260101_000000.json').write_text(json.dumps({'acc/top1': accuracy}))
    run_script(monkeypatch, 'three_splits.py', *(tmp_path / str(i) for i in range(3)))
    assert 'split 1 92.90%, mean of 3 splits 92.20%' in capsys.readouterr().out


def test_a_folder_without_a_test_ends_with_a_sentence(tmp_path: Path, monkeypatch):
    with pytest.raises(SystemExit, match=r'three_splits: .*1 has no result of a test; run "py'):
        run_script(monkeypatch, 'three_splits.py', *(tmp_path / i for i in '123'))
