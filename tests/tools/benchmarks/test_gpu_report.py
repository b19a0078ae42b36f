"""All of the report runs small on a CPU; its figures mean nothing there."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / 'tools/benchmarks'


@pytest.fixture(scope='module')
def report() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.delitem(sys.modules, 'gpu_report', raising=False)
        yield importlib.import_module('gpu_report')


def test_every_row_runs(report: ModuleType, tmp_path: Path):
    rows = report.rows(tmp_path)
    (tmp_path / 'training/20200101/vis_data').mkdir(parents=True)  # of an earlier run
    (tmp_path / 'training/20200101/vis_data/scalars.json').write_text('{}')
    results = {name: report.run_row(row) for name, row in rows.items()}
    assert not {name: result for name, result in results.items() if 'outcome' in result}
    for name, result in results.items():
        if name.startswith(('step', 'loader', 'training', 'recomputed', 'chunks')):
            assert result['videos_per_second'] > 0, name
    assert results[report.TRAINING]['steps'] == 3
    report.write(tmp_path, report.describe_machine(), results)
    text = (tmp_path / 'report.md').read_text()
    assert 'meaningless' in text and 'Fastest layout' in text
    assert all(f'| {name} |' in text for name in rows)


def test_an_error_is_a_result(report: ModuleType):
    def fail(text: str) -> dict:
        raise RuntimeError(text)

    row = report.Row(fail, dict(text='CUDA out of memory. Tried to allocate 2.00 GiB.\nmore'))
    assert report.run_row(row) == dict(outcome='out of memory')
    row = report.Row(fail, dict(text='first\nsecond'))
    assert report.run_row(row) == dict(outcome='RuntimeError: first')


def test_a_batch_that_fits_is_found(report: ModuleType, monkeypatch: pytest.MonkeyPatch):
    tried = []

    def measure(self: object, videos: int, steps: int) -> dict:
        tried.append(videos)
        if videos > most:
            raise RuntimeError('CUDA out of memory')
        return dict(videos=videos)

    monkeypatch.setattr(report.TrainingStep, 'measure', measure)
    config = report.load_config(report.K400)
    monkeypatch.setattr(report, 'load_config', lambda *args: config)
    monkeypatch.setattr(report, 'ON_GPU', True)
    for most, least in ((300, 240), (256, 240), (200, 186), (130, 120), (3, 3), (1, 1)):
        tried.clear()
        result = report.largest_batch({})
        assert least <= result['largest_batch'] <= min(most, 256) and len(tried) < 12
    most = 0
    assert report.largest_batch({}) == dict(outcome='out of memory')


def test_a_row_has_a_process_and_a_time_limit(report: ModuleType, tmp_path: Path):
    assert report.measure('copies', tmp_path, 120)['pageable, GB/s'] > 0
    assert report.measure(report.TRAINING, tmp_path, 0.1) == dict(outcome='ended after 0 s')


def test_each_result_is_written_and_kept(
    report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written = []

    def measure(name: str, out: Path, limit: float) -> dict:
        if (out / 'results.json').exists():
            written.append(len(json.loads((out / 'results.json').read_text())['results']))
        return dict(videos_per_second=float(len(written)))

    def run(*args: object) -> dict:
        monkeypatch.setattr(sys, 'argv', ['gpu_report.py', '--out', *map(str, (tmp_path, *args))])
        report.main()
        return json.loads((tmp_path / 'results.json').read_text())['results']

    monkeypatch.setattr(report, 'measure', measure)
    first = run()
    assert list(first) == list(report.rows(tmp_path))
    assert written == list(range(1, len(first)))
    second = run('--only', 'step, stock')
    assert {name for name in first if first[name] != second[name]} == {'step, stock'}
    assert run('--minutes', 0.01) == second
    (tmp_path / 'results.json').unlink()
    assert {result['outcome'] for result in run('--minutes', 0.01).values()}
    assert 'no setting can be recommended' in (tmp_path / 'report.md').read_text()
    with pytest.raises(SystemExit):
        run('--only', 'nonsense')


def test_recommends_by_what_was_measured(report: ModuleType):
    results = {
        'step, loader': dict(videos_per_second=200.0),
        'step, contiguous': dict(outcome='out of memory'),
        'step, channels_last': dict(videos_per_second=280.0),
        'recomputed: none': dict(largest_batch=96),
        'recomputed: layer1': dict(largest_batch=136),
        'recomputed: all': dict(largest_batch=256),
        'step, compiled': dict(videos_per_second=220.0),
        'loader, original, 16 workers': dict(videos_per_second=290.0),
        'loader, original, 8 workers': dict(videos_per_second=150.0),
        report.TRAINING: dict(waiting_for_data=0.25),
    }
    text = report.advice(results)
    for said in (
        *('channels_last=True', ': layer1.', 'compiled: 1.10 x'),
        *('keeps up: original, 16 workers', 'for data 25%'),
    ):
        assert said in text
    assert 'device augmentation' not in text  # was not measured
