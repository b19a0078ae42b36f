"""The miniature varies what the paper's experiments vary, and quotes the paper's numbers."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from tables import MEASURES, TABLES, measures_by_run

CONFIGS = Path(__file__).parents[2] / 'configs'
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]


def test_every_row_names_a_config_and_known_measures():
    for table, row in ROWS:
        assert row.run == 'random' or (CONFIGS / f'miniature/{row.run}.py').is_file()
        assert set(row.paper) <= set(table.measures) <= set(MEASURES)


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
    section = readme.split(f'### {heading}')[1].split('\n###')[0]
    paper = re.findall(r'^\|[^|]+\|[^|]+\|[^|]+\| ([\d.]+) \|', section, re.MULTILINE)
    ours = [row.paper['linear'] for row in TABLES[table].rows if row.paper]
    assert ours == [float(number) for number in paper]


@pytest.mark.parametrize(
    'name',
    [
        'augment_inconsistent',
        'interval_decreasing_sqrt',
        'interval_decreasing_square',
        'interval_increasing_linear',
        'interval_increasing_square',
        'interval_uniform',
        'hidden_layers_0',
        'hidden_layers_1',
        'hidden_layers_2',
    ],
)
def test_ablations_change_what_the_full_size_ones_change(name: str):
    def settings(path: str) -> tuple:
        cfg = Config.fromfile(CONFIGS / path)
        sampler, augment = cfg.train_dataloader.dataset.pipeline[1:4:2]
        head = cfg.model.cls_head
        return (
            sampler.get('density'),
            sampler.get('power'),
            augment.over,
            head.get('num_hidden_layers'),
        )

    assert settings(f'miniature/{name}_motion.py') == settings(f'ablations/{name}.py')
    assert settings(f'miniature/{name}_motion.py') != settings('miniature/cvrl_motion.py')


def test_batch_sizes_see_as_many_videos():
    for row in TABLES['batch_size'].rows:
        cfg = Config.fromfile(CONFIGS / f'miniature/{row.run}.py')
        assert cfg.train_cfg.max_iters * cfg.train_dataloader.batch_size == 51200
        assert cfg.optim_wrapper.optimizer.lr / cfg.train_dataloader.batch_size == 8e-3 / 64
        assert cfg.param_scheduler[0].end / cfg.train_cfg.max_iters == 0.125


def test_the_length_of_the_training_doubles_from_row_to_row():
    configs = [Config.fromfile(CONFIGS / f'miniature/{row.run}.py') for row in TABLES['steps'].rows]
    assert [config.train_cfg.max_iters for config in configs] == [200, 400, 800, 1600]
    for config in configs:
        warm_up = config.param_scheduler[0].end / config.train_cfg.max_iters
        assert warm_up == 0.125


def test_a_run_that_tables_share_is_made_once_with_all_measures():
    runs = measures_by_run(['linear', 'labels', 'interval'])
    assert list(runs)[:3] == ['random', 'simclr_motion', 'cvrl_motion']
    assert runs['cvrl_motion'] == {*TABLES['linear'].measures, *TABLES['labels'].measures}
    assert runs['interval_uniform_motion'] == set(TABLES['interval'].measures)
