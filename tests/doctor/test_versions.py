from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cvrl_mm.doctor import versions


@pytest.fixture
def installed(monkeypatch):
    """Pretend that these and no other distributions are installed."""

    def pretend(**distributions: str) -> None:
        def version(name: str) -> str:
            if name.replace('-', '_') not in distributions:
                raise metadata.PackageNotFoundError(name)
            return distributions[name.replace('-', '_')]

        monkeypatch.setattr(metadata, 'version', version)
        needs = ['mmengine>=0.10.4,<0.11', 'numpy', 'mmdet>=3.1; extra == "detection"']
        monkeypatch.setattr(metadata, 'requires', lambda name: needs)

    return pretend


@pytest.mark.parametrize(
    ('tested', 'version', 'status', 'words'),
    [
        ('mmengine==0.10.7', '0.10.7', 'ok', 'as tested'),
        ('mmengine==0.10.7', '0.10.5', 'note', 'not tested'),
        ('mmengine==0.10.7', '0.11.0', 'problem', 'outside of what cvrl_mm declares'),
        ('torch==2.13.0', '2.13.0+cu128', 'ok', 'as tested'),
        ('pandas<3', '2.3.3', 'ok', 'as tested'),
    ],
)
def test_judges_a_version(installed, tested: str, version: str, status: str, words: str):
    requirement = Requirement(tested)
    installed(**{requirement.name: version})
    finding = versions.check_version(requirement)
    assert finding.status == status and words in finding.seen
    assert (finding.advice == '') == (status == 'ok')


def test_a_missing_package_is_a_problem_only_if_it_is_needed(installed):
    installed()
    assert versions.check_version(Requirement('decord==0.6.0')).status == 'problem'
    assert versions.check_version(Requirement('mmdet==3.3.0')).status == 'ok'


@pytest.mark.parametrize(
    ('distributions', 'status'),
    [(dict(mmcv='2.1.0'), 'ok'), (dict(mmcv='2.1.0', mmcv_lite='2.1.0'), 'problem')],
)
def test_two_mmcvs_are_a_problem(installed, distributions: dict, status: str):
    installed(**distributions)
    assert versions.check_mmcv().status == status


def test_the_tested_table_is_the_constraints_file():
    names = [r.name for r in versions.read_constraints(versions.TESTED)]
    lines = (Path(__file__).parents[2] / 'constraints.txt').read_text().splitlines()
    assert len(names) == len([line for line in lines if line and not line.startswith('#')])
    assert {'torch', 'mmengine', 'mmcv', 'mmaction2', 'decord'} <= set(names)


def test_a_version_for_another_python_is_passed_over(tmp_path):
    lines = ['a==1; python_version < "3"', 'b==2; python_version >= "3"', 'c==3']
    (tmp_path / 'constraints.txt').write_text('\n'.join(lines))
    found = versions.read_constraints(tmp_path / 'constraints.txt')
    assert [str(requirement) for requirement in found] == ['b==2', 'c==3']
