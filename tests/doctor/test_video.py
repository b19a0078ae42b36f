from pathlib import Path

import pytest

from cvrl_mm.doctor import video


def test_decodes_and_augments():
    *decoders, tried = video.check_video()
    assert [d.name for d in decoders] == ['decord', 'av']
    assert tried.status == 'ok' and tried.seen.startswith('2x3x16x224x224 in ')


def test_a_file_that_does_not_decode_is_a_problem(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(video, 'encode', lambda path, frames: path.write_bytes(b'no video'))
    found = video.try_pipeline(tmp_path / 'motion.mp4')
    assert found.status == 'problem' and 'reinstall decord' in found.advice


@pytest.mark.parametrize(('missing', 'status'), [('decord', 'problem'), ('av', 'note')])
def test_says_what_to_install(monkeypatch, missing: str, status: str):
    find_spec = video.importlib.util.find_spec
    monkeypatch.setattr(
        video.importlib.util, 'find_spec', lambda name: None if name == missing else find_spec(name)
    )
    found = video.check_video()[-1]
    assert found.status == status and 'pip install' in found.advice
