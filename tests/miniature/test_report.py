import csv
from pathlib import Path

import cv2

from cvrl_mm.miniature.report import write_report

RESULTS = {
    'random': {0: {'linear': 0.2}, 1: {'linear': 0.3}},
    'simclr_motion': {0: {'linear': 0.6}, 1: {'linear': 0.8}},
    'cvrl_motion': {0: {'linear': 0.5, 'R@1': 0.25}, 1: {}},
}


def test_report_states_means_and_deviations(tmp_path: Path):
    path = write_report(tmp_path, ['linear', 'labels'], RESULTS, {'seeds': '0, 1'})
    text = path.read_text()
    assert '- seeds: 0, 1\n' in text
    assert '| random | 25.0 ± 7.1 | not run | not run | 2 |' in text
    assert '| SimCLR inflated | 70.0 ± 14.1 (46.8) | not run | not run | 2 |' in text
    assert '| CVRL | 50.0 (66.1) | not run | 25.0 | 1 |' in text
    assert '| from scratch | not run (3.2) | not run (39.6) | not run | 0 |' in text


def test_measures_of_a_row_may_have_different_numbers_of_seeds(tmp_path: Path):
    results = {'cvrl_motion': {0: {'linear': 0.5}, 1: {'linear': 0.7, 'R@1': 0.3}}}
    text = write_report(tmp_path, ['linear'], results, {}).read_text()
    assert '| CVRL | 60.0 ± 14.1 (66.1) | not run | 30.0 | 1 or 2 |' in text


def test_the_results_of_all_runs_stand_beside_the_report(tmp_path: Path):
    results = {'cvrl_motion': {1: {'linear': 0.7, 'seconds': 9}, 0: {'linear': 0.5, 'R@1': 0.3}}}
    write_report(tmp_path, ['linear'], results, {})
    with (tmp_path / 'miniature.csv').open() as file:
        first, second = csv.DictReader(file)
    assert (first['run'], first['seed'], first['linear']) == ('cvrl_motion', '0', '0.5')
    assert (first['R@1'], second['R@1'], second['linear']) == ('0.3', '', '0.7')


def test_each_table_has_its_picture(tmp_path: Path):
    text = write_report(tmp_path, ['linear', 'interval'], RESULTS, {}).read_text()
    for name in ('linear', 'interval'):
        assert f'(miniature_{name}.png)' in text
        assert cv2.imread(str(tmp_path / f'miniature_{name}.png')).std() > 10


def test_claims_stand_at_the_top_with_their_intervals(tmp_path: Path):
    text = write_report(tmp_path, ['linear'], RESULTS, {}).read_text()
    top = text.split('## Linear evaluation')[0]
    # SimCLR - random: 40 and 50 points; half the width is 12.706 x 7.071 / sqrt(2)
    row = '| inflated SimCLR above random weights | control | +45.0 [-18.5, +108.5] | 2 '
    assert f'{row}| no difference shown |' in top
    assert 'CVRL above random' not in top  # one seed in common
