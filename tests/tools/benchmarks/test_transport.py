import importlib.util
from pathlib import Path

import pytest

from tests.script import run_script

SCRIPT = Path(__file__).parents[3] / 'tools/benchmarks/transport.py'


@pytest.fixture(scope='module')
def transport():
    spec = importlib.util.spec_from_file_location('benchmark_transport', SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_collates_are_measured_and_stacked_batches_open_no_files(transport):
    results = transport.measure(videos=4, batches=8, frames=1, size=8)
    stock, stacked = results['pseudo_collate'], results['stack_collate']
    assert len(stock) == len(stacked) == 8
    assert [r['files'] for r in stock] == [8] * 8  # clips and label of each video
    assert sum(r['files'] for r in stacked) <= 4  # one per buffer of the worker
    assert all(r[key] >= 0 for r in stock + stacked for key in ('receive', 'to device', 'release'))


def test_sums_up_each_batch(transport):
    batches = [
        {'receive': 1.0, 'to device': 5.0, 'release': 0.0, 'files': 4},
        {'receive': 2.0, 'to device': 1.0, 'release': 0.0, 'files': 0},
        {'receive': 3.0, 'to device': 1.0, 'release': 9.0, 'files': 0},
    ]
    expected = {'receive': 2, 'to device': 1, 'release': 0, 'sum': 6, 'largest sum': 13, 'files': 0}
    assert transport.summary(batches) == expected


def test_refuses_numbers_that_are_not_positive(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'benchmarks/transport.py', '--batches', 0)
    assert 'must be positive' in capsys.readouterr().err
