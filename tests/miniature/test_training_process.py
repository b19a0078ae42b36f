import os
from pathlib import Path

from mmengine.config import Config

from cvrl_mm.miniature.training_process import LOG, start_training

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
    process = start_training(
        Config(dict(seed=3)), folder, tmp_path / 'repository', 2, '--resume', 'auto'
    )
    try:
        assert process.wait(60) == 1
    finally:
        process.kill()
    said = (folder / LOG).read_text()
    paths = os.pathsep.join([str(tmp_path / 'repository'), '/elsewhere'])
    assert f'{folder}/config.py --work-dir {folder} --resume auto 2 {paths}' in said
    assert said.replace(' ', '').endswith('seed=3\namistake\n')
