import multiprocessing as mp
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Timer

import pytest
from safetensors.torch import save_file

from cvrl_mm.datasets.sampling import evenly_spaced
from cvrl_mm.io import locked, replacing
from cvrl_mm.processes import is_torchrun, rank_and_size
from cvrl_mm.text import one_line, printable


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / 'a.txt'
    path.write_text('old')
    with pytest.raises(RuntimeError), replacing(path) as part:
        part.write_text('half')
        assert path.read_text() == 'old'
        raise RuntimeError
    assert path.read_text() == 'old'
    with replacing(path) as part:
        assert part.suffix == '.txt'
        part.write_text('new')
    assert [p.name for p in tmp_path.iterdir()] == ['a.txt']
    assert path.read_text() == 'new'


def test_others_may_read_what_the_umask_allows(tmp_path: Path) -> None:
    (tmp_path / 'plain').touch()
    with replacing(tmp_path / 'new.safetensors') as part:
        save_file({}, part)  # which makes a file of its own, for its user alone
    assert (tmp_path / 'new.safetensors').stat().st_mode == (tmp_path / 'plain').stat().st_mode


def test_the_error_of_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r'a\.txt'), replacing(tmp_path / 'a.txt'):
        raise OSError(28, 'No space left on device')
    assert not list(tmp_path.iterdir())


def test_folders_and_devices_are_not_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path('/dev/null')):
        with pytest.raises(ValueError, match=path.name), replacing(path):
            pass


def hold(folder: Path, held: Event) -> None:
    with locked(folder):
        held.set()
        time.sleep(60)


def test_a_lock_excludes_other_processes_until_its_process_ends(tmp_path: Path) -> None:
    context = mp.get_context('fork')
    held = context.Event()
    holder = context.Process(target=hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(60)
    with pytest.raises(BlockingIOError, match=tmp_path.name), locked(tmp_path):
        pass
    Timer(0.1, holder.kill).start()
    with locked(tmp_path, wait=True):
        holder.join()


def test_text_from_outside_is_printed_without_control_characters() -> None:
    assert printable('a\x1b[2J\n\udcff b\u202e') == r'a\x1b[2J\n\udcff b\u202e'
    assert printable('10.00\u202fAM\u3000é') == '10.00\u202fAM\u3000é'  # as on a Mac; other spaces
    assert one_line(OSError(2, 'No such file')) == 'No such file'
    assert one_line(ValueError('a\n  b')) == 'ValueError: a b'


@pytest.mark.parametrize(
    ('env', 'expected'),
    [
        ({}, (0, 1)),
        (dict(RANK='1', WORLD_SIZE='2'), (1, 2)),
        (
            dict(SLURM_ARRAY_TASK_ID='3', SLURM_ARRAY_TASK_COUNT='4', SLURM_ARRAY_TASK_MIN='1'),
            (2, 4),
        ),
        (dict(SLURM_STEP_ID='0', SLURM_PROCID='3', SLURM_NTASKS='8'), (3, 8)),
    ],
)
def test_rank_and_size_come_from_the_launcher(env: dict, expected: tuple[int, int]) -> None:
    assert rank_and_size(env) == expected


def test_torchrun_is_told_by_its_local_rank() -> None:
    assert not is_torchrun(dict(RANK='0', WORLD_SIZE='1'))  # as for cvrl repack
    assert is_torchrun(dict(RANK='0', WORLD_SIZE='1', LOCAL_RANK='0'))


def test_an_array_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match='rank 4 of 3'):  # --array=0-4:2
        rank_and_size(dict(SLURM_ARRAY_TASK_ID='4', SLURM_ARRAY_TASK_COUNT='3'))


def test_evenly_spaced_includes_both_ends() -> None:
    assert evenly_spaced(10, 4) == [0, 3, 6, 9]
    assert evenly_spaced(2, 4) == [0, 1]
