import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from mmengine.runner import Runner

from cvrl_mm.doctor import stack

DRN = 'mmaction.models.localizers.drn'


def finding_about(words: str):
    (found,) = [f for f in stack.check_breakages() if words in f.name]
    return found


def test_this_stack_is_covered():
    assert {f.status for f in stack.check_breakages()} <= {'ok', 'note'}


def test_names_what_is_not_covered(monkeypatch):
    monkeypatch.setattr(Runner, 'resume', lambda self, filename: None)
    monkeypatch.setattr('torch.__version__', '2.6.0')
    assert finding_about('resume').status == 'problem'
    monkeypatch.setattr('torch.__version__', '2.5.1')
    assert finding_about('resume').seen == 'not in this stack'
    monkeypatch.setattr(np, '__version__', '2.1.0')
    monkeypatch.setattr('mmaction.evaluation.functional.accuracy.np', ModuleType('numpy'))
    assert finding_about('numpy 2').status == 'problem'


@pytest.mark.parametrize(('file', 'seen'), [(None, 'covered'), ('drn.py', 'not in this stack')])
def test_tells_a_stand_in_from_the_real_drn(monkeypatch, file: str | None, seen: str):
    module = ModuleType(DRN)
    if file is not None:
        module.__file__ = file
    monkeypatch.setitem(sys.modules, DRN, module)
    assert seen in finding_about('drn').seen


@pytest.mark.parametrize(('there', 'status'), [(True, 'ok'), (False, 'note')])
def test_gives_mim_a_link_to_an_editable_install(monkeypatch, tmp_path, there: bool, status: str):
    repository, site = tmp_path / 'repository', tmp_path / 'site'
    for folder in (repository / 'cvrl_mm.egg-info', site / 'cvrl_mm-0.1.0.dist-info'):
        folder.mkdir(parents=True)
        name = 'PKG-INFO' if folder.suffix == '.egg-info' else 'METADATA'
        (folder / name).write_text('Metadata-Version: 2.1\nName: cvrl_mm\nVersion: 0.1.0\n')
    (repository / 'cvrl_mm').mkdir()
    if there:
        (site / 'cvrl_mm').mkdir()
    monkeypatch.setattr(sys, 'path', [str(repository), str(site)])  # as with python -m
    (found,) = stack.check_place_for_mim()
    assert found.status == status
    if not there:
        package = Path(stack.compat.__file__).resolve().parent
        assert found.advice == f'ln -s {package} {site / "cvrl_mm"}'


def test_without_an_installation_mim_finds_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, 'path', [str(tmp_path), str(tmp_path)])
    (found,) = stack.check_place_for_mim()
    assert found.status == 'note' and 'only on the PYTHONPATH' in found.seen


def test_without_compiled_operators_torchvisions_matter_to_detection_alone(monkeypatch):
    monkeypatch.setattr(stack.importlib.util, 'find_spec', lambda name: None)
    assert stack.check_mmcv_ops().status == 'ok'

    def fail() -> None:
        raise RuntimeError('install torchvision==0.28')

    monkeypatch.setattr(stack, 'torchvision_ops', fail)
    found = stack.check_mmcv_ops()
    assert found.status == 'note' and 'AVA' in found.seen and '0.28' in found.advice


def test_operators_of_another_torch_are_a_problem(monkeypatch):
    def fail(name: str) -> None:
        raise ImportError('undefined symbol')

    monkeypatch.setattr(stack.importlib.util, 'find_spec', lambda name: name)
    monkeypatch.setattr(stack.importlib, 'import_module', fail)
    found = stack.check_mmcv_ops()
    assert found.status == 'problem' and 'undefined symbol' in found.seen


@pytest.mark.parametrize(
    ('torch_version', 'cudnn', 'status'),
    [('2.9.1', 91002, 'note'), ('2.9.1', 91501, 'ok'), ('2.8.0', 91002, None)],
)
def test_conv3d_that_torch_keeps_from_cudnn(monkeypatch, torch_version, cudnn, status):
    monkeypatch.setattr('torch.__version__', torch_version)
    monkeypatch.setattr('torch.version.cuda', '12.8')
    monkeypatch.setattr('torch.backends.cudnn.version', lambda: cudnn)
    assert [found.status for found in stack.check_cudnn()] == ([status] if status else [])
