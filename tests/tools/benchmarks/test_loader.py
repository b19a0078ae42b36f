import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.encoding import X264, encode
from tests.script import run_script

pytest.importorskip('decord')
SCRIPT = Path(__file__).parents[3] / 'tools/benchmarks/loader.py'


@pytest.fixture(scope='module')
def loader() -> ModuleType:
    spec = importlib.util.spec_from_file_location('benchmark_loader', SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope='module')
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp('video') / 'a.mp4'
    return str(encode(path, num_frames=50, options=X264))


def test_all_variants_decode_the_same_frames(loader, video, monkeypatch, tmp_path: Path):
    variants = loader.build_variants([video], loader.repack_all([video], tmp_path))
    sampler = variants[loader.DECODING].pipeline[1]
    draw, seen = sampler.draw_starts, []
    monkeypatch.setattr(sampler, 'draw_starts', lambda *args: seen.append(draw(*args)) or seen[-1])
    for variant in variants.values():
        loader.load_ms(variant.pipeline, variant.videos[0], seed=7)
    assert len(seen) == len([v for v in variants.values() if v.base != loader.OPENING]) >= 6
    assert len(set(seen)) == 1


def test_every_variant_is_timed_in_every_round(loader, video):
    variants = loader.build_variants([video, video], [video, video])
    times = loader.measure(variants, rounds=2, minutes=1)
    assert list(times) == list(variants)
    for ms in times.values():
        assert ms.shape == (2,) and (ms > 0).all()


def test_no_round_begins_after_the_time_is_up(loader, video):
    times = loader.measure(loader.build_variants([video], [video]), rounds=50, minutes=0)
    assert {ms.shape for ms in times.values()} == {(1,)}


def test_ratios_are_taken_within_a_round(loader):
    variants = {loader.DECODING: loader.Variant([], ['a']), 'half': loader.Variant([], ['a'])}
    stock = np.array([10.0, 100, 1000])
    table = loader.result_table(variants, {loader.DECODING: stock, 'half': stock / [2, 2, 4]})
    assert list(table.columns[2].cells) == ['1.00 (1.00 to 1.00)', '0.50 (0.38 to 0.50)']


def test_prints_the_table_alone(video, monkeypatch, new_logger, capfd):
    monkeypatch.setattr('os.sched_setaffinity', lambda *args: None, raising=False)
    run_script(monkeypatch, 'benchmarks/loader.py', video, '--rounds', 1)
    printed = ''.join(capfd.readouterr())
    assert 'ms per video' in printed
