"""The miniature varies what the paper's experiments vary, and quotes the paper's numbers."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / 'tools' / 'miniature'))
from run import make_videos  # noqa: E402

from report import write_report  # noqa: E402
from runs import Run  # noqa: E402
from tables import CLAIMS, MEASURES, TABLES, Row, measures_by_run  # noqa: E402

CONFIGS = ROOT / 'configs'
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]


def config_of(row: Row) -> Config:
    return Config.fromfile(CONFIGS / f'miniature/{row.run}_motion.py')


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


def test_rows_and_claims_are_measured_and_agree_with_the_papers_numbers():
    paper = {}
    for table, row in ROWS:
        assert row.run == 'random' or (CONFIGS / f'miniature/{row.run}_motion.py').is_file()
        assert set(table.measures) <= set(MEASURES)
        paper |= {(row.run, m): x for m, x in zip(table.measures, row.paper, strict=False)}
    measured, compared = measures_by_run(list(TABLES)), 0
    for claim in CLAIMS:
        for run in (claim.higher, claim.lower):
            assert measured[run] & {claim.measure, 'top1'}, claim.what
        higher, lower = (paper.get((run, claim.measure)) for run in (claim.higher, claim.lower))
        if higher and lower:
            assert higher > lower and claim.source != 'control', claim.what
            compared += 1
    assert compared >= 15


@pytest.mark.parametrize(
    ('table', 'heading'),
    [
        ('augmentation', 'Table 9'),
        ('interval', 'Figure 3'),
        ('hidden_layers', 'Table 6'),
        ('batch_size', 'Table 7'),
        ('steps', 'Table 8'),
    ],
)
def test_numbers_are_those_of_the_paper(table: str, heading: str):
    readme = (CONFIGS / 'README.md').read_text()
    paper = re.findall(rf'^\| {heading}[^|]*\|[^|]+\| ([\d.]+) \|', readme, re.MULTILINE)
    ours = {row.paper[0] for row in TABLES[table].rows if row.paper}
    assert ours == {63.8, *map(float, paper)}  # 63.8 is the default's


def test_ablations_change_what_the_full_size_ones_change():
    def settings(path: Path) -> tuple:
        cfg = Config.fromfile(path)
        sampler, augment = cfg.train_dataloader.dataset.pipeline[1:4:2]
        layers = cfg.model.cls_head.get('num_hidden_layers')
        return sampler.get('density'), sampler.get('power'), augment.over, layers

    full_size = [p for x in ('interval', 'hidden') for p in CONFIGS.glob(f'ablations/{x}_*.py')]
    assert len(full_size) == 8
    for path in [*full_size, CONFIGS / 'ablations/augment_inconsistent.py']:
        ours = settings(CONFIGS / f'miniature/{path.stem}_motion.py')
        assert ours == settings(path) != settings(CONFIGS / 'miniature/cvrl_motion.py')


def test_rows_of_other_batches_and_lengths_scale_the_schedule():
    lengths = []
    for row in (*TABLES['batch_size'].rows, *TABLES['steps'].rows):
        cfg = config_of(row)
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
