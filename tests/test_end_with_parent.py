import subprocess
import sys
import time
from pathlib import Path

import pytest

from cvrl_mm.end_with_parent import end_with_parent
from tests.processes import end_program, start_program

# The parent prints the number of its child and waits until it is killed; the child would wait, too.
PROGRAM = """
import multiprocessing, os, sys, time
from functools import partial
from pathlib import Path
from cvrl_mm.end_with_parent import end_with_parent

def write(path):
    Path(path).write_text('ended')
    if fails:
        raise ValueError

def child(path):
    end_with_parent(path and partial(write, path))
    print(os.getpid(), flush=True)
    time.sleep(600)

fails = sys.argv[2] == 'fails'
multiprocessing.get_context('fork').Process(target=child, args=[sys.argv[1]]).start()
time.sleep(600)
"""


@pytest.mark.skipif(not Path('/proc/self').exists(), reason='Linux only')
@pytest.mark.parametrize('before', ['none', 'works', 'fails'])
def test_a_process_ends_after_a_killed_parent(tmp_path: Path, before: str):
    note = tmp_path / 'note'
    path = '' if before == 'none' else str(note)
    program = start_program([sys.executable, '-c', PROGRAM, path, before], stdout=subprocess.PIPE)
    try:
        child = Path(f'/proc/{int(program.stdout.readline())}')
        program.kill()
        program.wait(30)
        deadline = time.monotonic() + 30
        while child.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not child.exists()
        assert note.exists() == (before != 'none')
    finally:
        end_program(program)
        program.stdout.close()


def test_a_process_without_a_parent_is_refused():
    with pytest.raises(RuntimeError, match='multiprocessing'):
        end_with_parent()
