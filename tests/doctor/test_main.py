from pathlib import Path

import pytest

from cvrl_mm.doctor import __main__ as doctor
from cvrl_mm.doctor.finding import Finding

K400 = Path(__file__).parents[2] / 'configs' / 'cvrl' / 'pretrain_k400.py'


def test_reports_on_this_installation_and_a_config(capsys):
    code = doctor.main(['--config', str(K400), '--ranks', '2'])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('note') and 'learning rate' in line for line in lines)
    assert any(line.startswith('ok') and 'decode and augment' in line for line in lines)
    problems = [line for line in lines if line.startswith('problem')]
    assert code == int(bool(problems)) and lines[-1].endswith(f', problems: {len(problems)}')
    assert all('->' in line for line in problems)


@pytest.mark.parametrize(('status', 'code'), [('ok', 0), ('note', 0), ('problem', 1)])
def test_exit_code_tells_of_problems(monkeypatch, status: str, code: int):
    monkeypatch.setattr(doctor, 'examine', lambda *args: [Finding(status, 'thing', 'seen')])
    assert doctor.main([]) == code


def test_a_config_that_does_not_exist_is_named(capsys):
    with pytest.raises(SystemExit, match='2'):
        doctor.main(['--config', 'nowhere.py'])
    assert 'nowhere.py' in capsys.readouterr().err


@pytest.mark.parametrize('ranks', ['0', '-1'])
def test_numbers_of_ranks_below_one_are_refused(ranks: str, capsys):
    with pytest.raises(SystemExit, match='2'):
        doctor.main(['--config', str(K400), '--ranks', ranks])
    assert f'--ranks must be at least 1, got {ranks}' in capsys.readouterr().err
