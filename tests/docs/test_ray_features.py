import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.convert import convert_tf_checkpoint
from cvrl_mm.encoder.encoder import load_encoder
from cvrl_mm.encoder.files import save_weights
from tests.processes import run_program
from tests.videos import encode

pytest.importorskip('ray', reason='needs ray[data]')
parquet = pytest.importorskip('pyarrow.parquet')
ROOT = Path(__file__).parents[2]
TF = ROOT / 'tests/data/released_backbone/r3d_50_w0.125_backbone-1'


def test_two_workers_write_the_features_of_a_list(tmp_path: Path):
    checkpoint = convert_tf_checkpoint(TF)
    checkpoint['meta']['input'] = dict(clip_len=4, frame_interval=2, size=32)
    weights = save_weights(checkpoint, tmp_path / 'encoder.safetensors')
    videos = [tmp_path / f'{i}.mp4' for i in range(4)]
    for i, video in enumerate(videos):
        encode(video, num_frames=12 + i)
    (tmp_path / 'text.mp4').write_text('no video')
    names = [*map(str, videos), str(tmp_path / 'text.mp4')]
    (tmp_path / 'list.txt').write_text('\n'.join(names))
    out = tmp_path / 'features'
    program = [
        sys.executable,
        ROOT / 'docs/examples/ray_features.py',
        weights,
        tmp_path / 'list.txt',
    ]
    options = ['--workers', 2, '--num-clips', 2, '--batch-size', 2]
    env = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    done = run_program([*program, out, *options], timeout_seconds=240, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row['path']: row for row in parquet.read_table(out).to_pylist()}
    assert sorted(rows) == sorted(names)
    encoder = load_encoder(weights)
    for video in videos:
        expected = encoder.features(encoder.transform(video, 2)).mean(0).numpy()
        row = rows[str(video)]
        np.testing.assert_allclose(np.array(row['feat']), expected, rtol=1e-4, atol=1e-5)
        assert not row['error']
    done = run_program([*program, out, *options], timeout_seconds=240, env=env, cwd=tmp_path)
    assert done.returncode and len(parquet.read_table(out)) == len(names)  # not twice
    assert rows[names[-1]]['error'] and np.isnan(rows[names[-1]]['feat']).all()
