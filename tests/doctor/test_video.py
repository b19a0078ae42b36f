from pathlib import Path

from cvrl_mm.doctor import video


def test_decodes_and_augments():
    *decoders, tried = video.check_video()
    assert decoders[0].name == 'av' and {d.name for d in decoders} <= {'av', 'decord'}
    assert tried.status == 'ok' and tried.seen.startswith('2x3x16x224x224 in ')


def test_a_file_that_does_not_decode_is_a_problem(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(video, 'encode', lambda path, frames: path.write_bytes(b'no video'))
    found = video.try_pipeline(tmp_path / 'motion.mp4')
    assert found.status == 'problem' and 'reinstall av' in found.advice
