import multiprocessing as mp
import time
from pathlib import Path

import pytest

from cvrl_mm.preparation import list_check
from cvrl_mm.preparation.list_check import check_list, join_checks
from tests.processes import end, exit_codes, start
from tests.videos import encode

NAMES = ['good 0.mp4', 'empty.mp4', 'good 1.mp4', 'gone.mp4', 'good 2.mp4']


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(3):
        encode(tmp_path / f'good {i}.mp4')
    (tmp_path / 'empty.mp4').touch()
    (tmp_path / 'list.txt').write_text(''.join(f'{n} {i}\n' for i, n in enumerate(NAMES)))
    return tmp_path


def arguments(folder: Path) -> tuple[Path, str]:
    return folder / 'list.txt', str(folder)


def assert_lists(folder: Path) -> None:
    clean = 'good 0.mp4 0\ngood 1.mp4 2\ngood 2.mp4 4\n'
    assert (folder / 'list.clean.txt').read_text() == clean
    assert (folder / 'list.bad_videos.txt').read_text().splitlines() == [
        f'{folder}/empty.mp4\tInvalid data found when processing input',
        f'{folder}/gone.mp4\tNo such file or directory',
    ]
    assert not (folder / 'list.clean.txt.parts').exists()


def test_one_process_writes_both_lists(folder: Path):
    seen = []
    found = check_list(*arguments(folder), on_progress=lambda *x: seen.append(x))
    assert [Path(path).name for path, _ in found.faults] == ['empty.mp4', 'gone.mp4']
    assert seen == [(i, 5) for i in range(6)]
    assert_lists(folder)


def check_all_but_one(folder: Path, rank: int, hanging: str) -> None:
    find_fault = list_check.find_fault

    def hang(filename: str, strict: bool) -> str | None:
        if hanging and filename.endswith(hanging):
            time.sleep(600)
        return find_fault(filename, strict)

    mp.set_start_method('fork', force=True)
    list_check.find_fault = hang  # the processes are forks
    check_list(*arguments(folder), timeout_seconds=500, rank=rank, size=2)


def test_two_ranks_one_of_them_killed_then_joined(folder: Path):
    ranks = [
        start(check_all_but_one, folder, 0, 'good 1.mp4'),
        start(check_all_but_one, folder, 1, ''),
    ]
    try:
        assert exit_codes(ranks[1:], 120) == [0]
        rows = folder / 'list.clean.txt.parts/part_0_of_2/rows.jsonl'
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (rows.exists() and rows.read_text()):
            time.sleep(0.05)
        with pytest.raises(BlockingIOError, match='Another process works on'):
            join_checks(*arguments(folder))
    finally:
        end(ranks[:1])  # SIGKILL at its second video
    with pytest.raises(ValueError, match=r'part_0_of_2 has 1 of 3 videos'):
        join_checks(*arguments(folder))
    seen = []
    on_progress = lambda *x: seen.append(x)  # noqa: E731
    assert check_list(*arguments(folder), rank=0, size=2, on_progress=on_progress) is None
    assert seen == [(1, 3), (2, 3), (3, 3)]
    join_checks(*arguments(folder))
    assert_lists(folder)


def test_checks_of_another_kind_or_list_are_refused(folder: Path):
    check_list(*arguments(folder), rank=0, size=2)
    with pytest.raises(ValueError, match='holds checks with other strict'):
        check_list(*arguments(folder), strict=False, rank=1, size=2)
    with pytest.raises(FileNotFoundError, match='lacks part_1_of_2'):
        join_checks(*arguments(folder))
    check_list(*arguments(folder), rank=1, size=2)
    with pytest.raises(ValueError, match=r'are of another list or --root than .*name those'):
        join_checks(folder / 'list.txt', '/elsewhere')
    join_checks(*arguments(folder))
    assert_lists(folder)


def test_a_list_of_another_system_is_written_with_plain_line_breaks(tmp_path: Path):
    encode(tmp_path / 'a\u2028b.mp4')
    encode(tmp_path / 'c.mp4')
    content = '\ufeffa\u2028b.mp4 1\rgone.mp4 0\rc.mp4 2\r\n'
    (tmp_path / 'list.txt').write_bytes(content.encode())
    found = check_list(tmp_path / 'list.txt', str(tmp_path))
    assert len(found.faults) == 1
    assert found.clean.read_bytes().decode() == 'a\u2028b.mp4 1\nc.mp4 2\n'


@pytest.mark.parametrize(
    ('name', 'stem'), [('list.txt', 'list'), ('ucf.a', 'ucf.a'), ('ucf.b', 'ucf.b'), ('l', 'l')]
)
def test_lists_have_results_of_their_own(name: str, stem: str, tmp_path: Path):
    (tmp_path / name).write_text('gone.mp4 0\n')
    found = check_list(tmp_path / name, str(tmp_path))
    assert found.clean.name == f'{stem}.clean.txt'
    assert found.report.name == f'{stem}.bad_videos.txt'
