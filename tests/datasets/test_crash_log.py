import os
import signal
import sys
from pathlib import Path

from torch.utils.data import DataLoader

from cvrl_mm.datasets import VideoFileInit, VideoListDataset
from cvrl_mm.datasets import crash_log as reading_note
from cvrl_mm.datasets.crash_log import CrashLogs
from tests.processes import run_program


class DyingInit(VideoFileInit):
    def transform(self, results: dict) -> dict:
        name = Path(results['filename']).name
        if name.startswith('crash'):
            os.kill(os.getpid(), signal.SIGSEGV)
        if name.startswith('kill'):
            os.kill(os.getpid(), signal.SIGKILL)
        return dict(results, total_frames=3)


def load(folder: Path) -> None:
    dataset = VideoListDataset(str(folder / 'list.txt'), [], data_prefix=dict(video=str(folder)))
    dataset.pipeline.transforms = [DyingInit()]
    try:
        for _ in DataLoader(dataset, num_workers=1, collate_fn=list):
            pass
    finally:
        print(dataset.crashed())


def run(tmp_path: Path, *names: str) -> str:
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / 'list.txt').write_text('\n'.join(names))
    (tmp_path / 'tmp').mkdir()
    code = 'import cvrl_mm, faulthandler, sys; from pathlib import Path; faulthandler.enable(); '
    code += 'from tests.datasets.test_crash_log import load; load(Path(sys.argv[1]))'
    done = run_program(
        [sys.executable, '-c', code, tmp_path],
        cwd=Path(__file__).parents[2],
        env=dict(os.environ, TMPDIR=str(tmp_path / 'tmp')),
    )
    assert not list((tmp_path / 'tmp').glob('cvrl_mm_*'))
    return done.stdout + done.stderr


def test_a_file_that_crashes_the_decoder_is_named(tmp_path: Path):
    said = run(tmp_path, 'good 1.mp4', 'crash 2.mp4', 'good 3.mp4')
    died = f'A loader worker died while it read {tmp_path}/crash 2.mp4, '
    assert died + 'at which the decoder crashed.' in said
    crashed = {f'{tmp_path}/crash 2.mp4': 'the decoder crashed: Segmentation fault'}
    assert str(crashed) in said
    assert f'{tmp_path}/good' not in said


def test_nothing_is_said_of_workers_that_live(tmp_path: Path):
    said = run(tmp_path, 'good 1.mp4', 'good 2.mp4')
    assert 'died' not in said and '{}' in said


def test_a_worker_that_is_killed_is_no_fault_of_the_file(tmp_path: Path):
    said = run(tmp_path, 'good 1.mp4', 'kill 2.mp4')
    assert 'is killed by signal: Killed' in said
    assert 'it read' not in said and '{}' in said


def test_a_note_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch):
    notes = CrashLogs()
    monkeypatch.setattr(reading_note, 'get_worker_info', lambda: 'a worker')
    monkeypatch.setattr(notes, 'folder', tmp_path / 'no folder' / 'notes')
    with notes.noted('a.mp4'):
        pass
    assert notes.crashed() == {}
