"""All of the report runs small on a CPU; its figures mean nothing there."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / 'tools/benchmarks'


@pytest.fixture(scope='module')
def modules() -> tuple[ModuleType, ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.delitem(sys.modules, 'gpu_report', raising=False)
        patch.delitem(sys.modules, 'gpu_measurements', raising=False)
        report = importlib.import_module('gpu_report')
        yield report, sys.modules['gpu_measurements']


def test_every_measurement_runs(modules: tuple, tmp_path: Path):
    report, measurements = modules
    rows = report.measurements(str(tmp_path), workers=1, steps=3)
    assert {row.function for row in rows} | {'machine'} == {
        f.__name__ for f in measurements.MEASUREMENTS
    }
    results = {row.name: measurements.result_of(row.function, row.arguments) for row in rows}
    failed = {name: r['outcome'] for name, r in results.items() if 'outcome' in r}
    assert not failed
    for name, result in results.items():
        if name.startswith(('step', 'loader', 'training', 'recomputed', 'chunks')):
            assert result['videos_per_second'] > 0, name
    assert results['training, 3 steps']['steps'] == 3
    machine = measurements.result_of('machine', {})
    text = report.report(machine, results)
    assert 'they are meaningless' in text and 'GiB not measured' in text
    assert 'Fastest layout' in text


def test_running_out_of_memory_is_a_result(modules: tuple, monkeypatch: pytest.MonkeyPatch):
    _, measurements = modules

    def full() -> dict:
        raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB.\nmore')

    def broken() -> dict:
        raise ValueError('first line\nsecond')

    monkeypatch.setattr(measurements, 'MEASUREMENTS', (full, broken))
    assert measurements.result_of('full', {}) == dict(outcome='out of memory')
    assert measurements.result_of('broken', {}) == dict(outcome='ValueError: first line')


def test_a_measurement_has_a_process_and_a_time_limit(modules: tuple):
    report, _ = modules
    row = report.Measurement('product', 'matrix_product')
    assert report.measure(row, 120)['tflops'] > 0
    assert report.measure(row, 0.1) == dict(outcome='ended after 0 s')


def test_writes_each_result_and_what_is_left_out(
    modules: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    report, _ = modules
    written = []

    def measure(row: object, seconds_left: float) -> dict:
        if (tmp_path / 'results.json').exists():
            written.append(len(json.loads((tmp_path / 'results.json').read_text())['results']))
        return (
            dict(outcome='out of memory') if row.name == 'chunks' else dict(videos_per_second=2.0)
        )

    monkeypatch.setattr(report, 'measure', measure)
    monkeypatch.setattr(sys, 'argv', ['gpu_report.py', '--out', str(tmp_path)])
    report.main()
    assert written == list(range(1, len(written) + 1))
    assert '| chunks | out of memory |' in (tmp_path / 'report.md').read_text()

    monkeypatch.setattr(sys, 'argv', ['gpu_report.py', '--out', str(tmp_path), '--minutes', '0.01'])
    report.main()
    assert 'no time left' in (tmp_path / 'report.md').read_text()
    assert 'no setting can be recommended' in capsys.readouterr().out


def test_recommends_by_what_was_measured(modules: tuple):
    report, _ = modules
    results = {
        'matrix product, bfloat16': dict(tflops=700.0),
        'FLOPs per video': dict(gflops=500.0),
        'step, loader': dict(videos_per_second=200.0),
        'step, contiguous': dict(outcome='out of memory'),
        'step, channels_last': dict(videos_per_second=280.0),
        'recomputed: none': dict(largest_batch=96),
        'recomputed: layer1': dict(largest_batch=136),
        'recomputed: all': dict(largest_batch=300),
        'step, compiled, nothing recomputed': dict(videos_per_second=220.0),
        'loader, original, 8 workers': dict(videos_per_second=150.0),
        'loader, original, 16 workers': dict(videos_per_second=290.0),
        'training, 50 steps': dict(waiting_for_data=0.25),
    }
    text = report.advice(dict(gpu='NVIDIA H200'), results)
    for said in (
        'channels_last=True',
        '20% of the measured matrix product and 14% of the nominal peak',
        'fits 128 videos: layer1.',
        'torch.compile without recomputation: 1.10 x',
        'keeps up: original, 16 workers',
        'waited for data 25% of the time',
    ):
        assert said in text
    assert 'Device augmentation' not in text  # was not measured
