import os
import signal
import sys
import tempfile
from pathlib import Path

from torch.utils.data import DataLoader

from cvrl_mm.datasets import VideoFileInit, VideoListDataset, crash_log
from cvrl_mm.datasets.crash_log import CrashLogs
from tests.processes import exit_codes, run_program, start


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
        print(dataset.record.crashed())


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
    died = f'A loader worker ended while it read {tmp_path}/crash 2.mp4, '
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


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch):
    logs = CrashLogs()
    monkeypatch.setattr(crash_log, 'get_worker_info', lambda: 'a worker')
    monkeypatch.setattr(logs, 'folder', tmp_path / 'no folder' / 'logs')
    with logs.reading('a.mp4'):
        pass
    assert logs.crashed() == {}


def read_and_die(temporary: Path, owner: Path, filename: str, signum: int) -> None:
    """Read without loader workers."""
    tempfile.tempdir = str(temporary)
    with CrashLogs(owner).reading('another.mp4'):
        pass
    with CrashLogs(owner).reading(filename):
        os.kill(os.getpid(), signum)


def test_a_crash_without_workers_is_known_to_the_next_start(tmp_path: Path, monkeypatch):
    (tmp_path / 'tmp').mkdir()
    names = {'run': 'a\tb\u2028c.mp4', 'other': 'other.mp4', 'killed': 'killed.mp4'}
    signals = [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL]
    ended = [
        start(read_and_die, tmp_path / 'tmp', tmp_path / run, name, signum)
        for (run, name), signum in zip(names.items(), signals, strict=True)
    ]
    assert exit_codes(ended) == [-signum for signum in signals]
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / 'tmp'))
    crashed = {names['run']: 'the decoder crashed: Segmentation fault'}
    assert CrashLogs(tmp_path / 'run').earlier_crashes() == crashed
    (left,) = (tmp_path / 'tmp').iterdir()  # the other run's; nobody needs the rest
    assert CrashLogs(tmp_path / 'run').earlier_crashes() == {} and left.exists()
    crashed = {'other.mp4': 'the decoder crashed: Aborted'}
    assert CrashLogs(tmp_path / 'other').earlier_crashes() == crashed
    assert not list((tmp_path / 'tmp').iterdir())


def test_folders_of_running_processes_are_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    logs = CrashLogs(tmp_path / 'run')
    with logs.reading('a.mp4'):
        assert CrashLogs().earlier_crashes() == {}
        assert logs.folder.exists()
    logs.remove()
    assert not logs.folder.exists()
