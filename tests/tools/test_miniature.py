"""The miniature varies what the paper's experiments vary, and quotes the paper's numbers."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
from mmengine.config import Config

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / 'tools' / 'miniature'))
from run import make_videos  # noqa: E402

from report import write_report  # noqa: E402
from runs import Run  # noqa: E402
from tables import TABLES  # noqa: E402


def test_the_published_report_follows_from_the_published_results(tmp_path: Path):
    published = ROOT / 'docs/miniature'
    results: dict = {}
    with (published / 'miniature.csv').open() as file:
        for row in csv.DictReader(file):
            run, seed = row.pop('run'), int(row.pop('seed'))
            results.setdefault(run, {})[seed] = {k: float(v) for k, v in row.items() if v}
    text = (published / 'miniature.md').read_text()
    settings = dict(re.findall(r'^- (\w+): (.*)$', text.split('\n## ')[0], re.MULTILINE))
    write_report(tmp_path, results, settings)
    for name in ('miniature.md', 'miniature.csv'):
        assert (tmp_path / name).read_text() == (published / name).read_text()


def test_rows_of_other_batches_and_lengths_scale_the_schedule():
    lengths = []
    for row in (*TABLES['batch_size'].rows, *TABLES['steps'].rows):
        cfg = Config.fromfile(ROOT / f'configs/miniature/{row.run}_motion.py')
        steps, batch = cfg.train_cfg.max_iters, cfg.train_dataloader.batch_size
        lengths.append(steps * batch // 64)
        assert cfg.optim_wrapper.optimizer.lr / batch == 8e-3 / 64
        assert cfg.param_scheduler[0].end / steps == 0.125
    assert lengths == [800] * 4 + [200, 400, 800, 1600]


def test_a_run_is_measured_once_on_its_own_videos(tmp_path: Path):
    make_videos(tmp_path, seed=7, videos=(64, 40))
    run = Run('simclr', 7, {'linear', 'labels_1pct'}, tmp_path, 0, budget=0.005)
    run.execute()
    weights = run.folder / 'inflated.pth'
    assert weights.is_file()
    assert all(0 <= run.results()[measure] <= 1 for measure in run.measures)
    assert not run.missing()
    weights.unlink()
    run.measures.add('transfer')
    run.execute()  # the pre-training is finished, and only what is missing is measured
    values = [run.results()[m] for m in ('linear', 'labels_1pct', 'transfer')]
    assert np.isfinite(values).all() and weights.is_file()
