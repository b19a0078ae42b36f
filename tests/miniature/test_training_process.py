import os
import signal
import time
from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.miniature.training_process import LOG, training_process

SCRIPT = """
import os, sys
print(*sys.argv[1:], os.environ['OMP_NUM_THREADS'], os.environ['PYTHONPATH'])
print(open(sys.argv[1]).read().strip(), flush=True)
sys.exit('a mistake')
"""


def test_starts_train_py_of_the_repository(tmp_path: Path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '/elsewhere')
    script = tmp_path / 'repository/tools/train.py'
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    folder = tmp_path / 'runs/first'
    config = Config(dict(seed=3))
    with training_process(
        config, folder, tmp_path / 'repository', 2, '--resume', 'auto'
    ) as process:
        assert process.wait(60) == 1
    said = (folder / LOG).read_text()
    paths = os.pathsep.join([str(tmp_path / 'repository'), '/elsewhere'])
    assert f'{folder}/config.py --work-dir {folder} --resume auto 2 {paths}' in said
    assert said.replace(' ', '').endswith('seed=3\namistake\n')


@pytest.mark.parametrize('obeys', [True, False])
def test_ends_with_the_block(tmp_path: Path, monkeypatch, obeys: bool):
    monkeypatch.setattr('cvrl_mm.miniature.training_process.SAVING_SECONDS', 60 if obeys else 0.1)
    script = tmp_path / 'repository/tools/train.py'
    script.parent.mkdir(parents=True)
    ignore = '' if obeys else 'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
    script.write_text(f'import signal, time\n{ignore}print("started", flush=True)\ntime.sleep(60)')
    folder = tmp_path / 'run'
    with (
        pytest.raises(KeyboardInterrupt),
        training_process(Config(), folder, tmp_path / 'repository', 1) as process,
    ):
        while 'started' not in (folder / LOG).read_text():
            assert process.poll() is None
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert process.returncode == -(signal.SIGTERM if obeys else signal.SIGKILL)
