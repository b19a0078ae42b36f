"""The model of docs/encoder.md in MTEB, with its mock tasks, where MTEB is installed."""

import re
from pathlib import Path

import pytest
import torch

from tests.own_videos.folder import small_encoder
from tests.videos import encode

PAGE = Path(__file__).parents[2] / 'docs/encoder.md'
mteb = pytest.importorskip('mteb')
decoders = pytest.importorskip('torchcodec.decoders')


def test_the_model_runs_in_tasks_for_video(tmp_path, monkeypatch):
    from mteb.mocks.mock_tasks import MockVideoClassification, MockVideoClusteringTask

    monkeypatch.chdir(tmp_path)
    small_encoder().save('work_dirs/mine/encoder.safetensors')
    (program,) = re.findall(
        r'```python\n(import cvrl_mm\nimport mteb\n.*?)```', PAGE.read_text(), re.S
    )
    tasks = [MockVideoClassification(), MockVideoClusteringTask()]
    evaluate, results = mteb.evaluate, []
    monkeypatch.setattr(
        mteb, 'evaluate', lambda model, _: results.append(evaluate(model, tasks, cache=None))
    )
    exec(program, names := {})
    assert [0 <= found.get_score() <= 1 for found in results[0].task_results] == [True, True]
    encode(Path('video.mp4'))
    model = names['CVRLModel']()
    expected = model.encoder.features(model.encoder.transform('video.mp4')).mean(0)
    assert torch.allclose(model.one(decoders.VideoDecoder('video.mp4')), expected, rtol=1e-3)
