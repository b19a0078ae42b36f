import importlib.util
from pathlib import Path

import pytest

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
