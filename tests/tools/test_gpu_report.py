"""All of the report runs small on a CPU; its figures mean nothing there."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.encoding import X264, encode

FOLDER = Path(__file__).parents[2] / 'tools/benchmarks'


@pytest.fixture(scope='module')
def report() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.delitem(sys.modules, 'gpu_report', raising=False)
        yield importlib.import_module('gpu_report')


@pytest.mark.long
def test_every_row_runs(report: ModuleType, tmp_path: Path):
    (tmp_path / 'real videos').mkdir()
    encode(tmp_path / 'real videos/a.mp4', num_frames=30, options=X264)
    rows = report.rows(report.Videos(tmp_path, tmp_path / 'real videos'))
    (tmp_path / 'training/20200101/vis_data').mkdir(parents=True)  # of an earlier run
    (tmp_path / 'training/20200101/vis_data/scalars.json').write_text('{}')
    results = {name: report.run_row(row) for name, row in rows.items()}
    assert not {name: result for name, result in results.items() if 'outcome' in result}
    for name, result in results.items():
        is_rate = name.startswith(('step', 'loader'))
        assert not is_rate or result['videos_per_second'] > 0, name
    trained = results[report.TRAINING]
    assert report.KILLED < trained['first_logged'] < trained['steps'] == report.STEPS
    assert not list(tmp_path.glob('original_*.mp4'))  # the real ones are read
    report.write(tmp_path, report.describe_machine(), results)
    text = (tmp_path / 'report.md').read_text()
    assert 'meaningless' in text and all(f'| {name} |' in text for name in rows)


@pytest.mark.parametrize(
    ('error', 'outcome'),
    [
        ('CUDA out of memory. Tried to allocate 2.00 GiB.\nmore', 'out of memory'),
        ('FIND was unable to find an engine to execute this', 'out of memory'),  # of cuDNN
        ('first\nsecond', 'RuntimeError: first'),
    ],
)
def test_an_error_is_a_result(error: str, outcome: str, report: ModuleType):
    def fail() -> dict:
        raise RuntimeError(error)

    assert report.run_row(report.Row(fail)) == dict(outcome=outcome)


def test_each_result_is_written_and_kept(
    report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written = []

    def measure(name: str, videos: object, seconds: float) -> dict:
        if (tmp_path / 'results.json').exists():
            written.append(len(json.loads((tmp_path / 'results.json').read_text())['results']))
        return dict(videos_per_second=float(len(written)))

    def run(*args: object) -> dict:
        monkeypatch.setattr(sys, 'argv', ['gpu_report.py', '--out', *map(str, (tmp_path, *args))])
        report.main()
        return json.loads((tmp_path / 'results.json').read_text())['results']

    monkeypatch.setattr(report, 'measure', measure)
    first = run()
    assert list(first) == list(report.rows(report.Videos(tmp_path)))
    assert written == list(range(1, len(first)))
    second = run('--only', 'step, tuned')
    assert {name for name in first if first[name] != second[name]} == {'step, tuned'}
    assert run('--minutes', 0) == second
    with pytest.raises(SystemExit):
        run('--only', 'nonsense')
    monkeypatch.setattr(report, 'describe_machine', lambda: dict(gpu='another'))
    with pytest.raises(SystemExit):
        run('--only', 'step')
    assert json.loads((tmp_path / 'results.json').read_text())['results'] == second
