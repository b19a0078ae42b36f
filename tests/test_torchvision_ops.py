import pytest
import torch

from cvrl_mm import torchvision_ops


@pytest.mark.parametrize(
    ('torch_version', 'command'),
    [
        ('2.4.1', "pip install --force-reinstall --no-deps 'torchvision==0.19.*'"),
        (
            '2.13.0+cpu',
            "pip install --force-reinstall --no-deps 'torchvision==0.28.*' "
            '--index-url https://download.pytorch.org/whl/cpu',
        ),
        ('2.15.0', "pip install --force-reinstall --no-deps 'torchvision>=0.29'"),
    ],
)
def test_the_matching_torchvision_is_named(torch_version: str, command: str):
    assert torchvision_ops.matching_torchvision(torch_version) == command


def test_a_torchvision_that_does_not_load_is_told_with_the_pair(monkeypatch):
    def fail(name: str) -> None:
        raise RuntimeError('operator torchvision::nms does not exist\n...')

    monkeypatch.setattr(torchvision_ops.importlib, 'import_module', fail)
    monkeypatch.setattr(torch, '__version__', '2.13.0+cpu')
    with pytest.raises(
        RuntimeError, match=r'nms does not exist\).*torch is 2\.13\.0\+cpu.*whl/cpu'
    ):
        torchvision_ops.torchvision_ops()
