import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / 'tools/benchmarks/loader.py'


@pytest.fixture(scope='module')
def loader():
    spec = importlib.util.spec_from_file_location('benchmark_loader', SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope='module')
def video(tmp_path_factory):
    path = str(tmp_path_factory.mktemp('video') / 'a.mp4')
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'mp4v'), 25, (64, 48))
    for i in range(50):
        writer.write(np.full((48, 64, 3), 4 * i, np.uint8))
    writer.release()
    return path


def test_all_variants_decode_the_same_frames(loader, video, monkeypatch):
    variants, seen = loader.build_variants(), []
    sampler = variants[loader.ALONE][1]
    draw = sampler.draw_starts
    monkeypatch.setattr(sampler, 'draw_starts', lambda *args: seen.append(draw(*args)) or seen[-1])
    for pipeline in variants.values():
        loader.load_ms(pipeline, video, seed=7)
    assert len(seen) == len(variants) == 5
    assert len(set(seen)) == 1


def test_every_sample_of_every_variant_is_timed(loader, video):
    times = loader.measure([video, video], repeats=2)
    assert len(times) == 5
    for ms in times.values():
        assert ms.shape == (2, 2) and (ms > 0).all()
