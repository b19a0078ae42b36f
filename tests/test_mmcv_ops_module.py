import sys

import pytest
import torch

from cvrl_mm import mmcv_ops, mmcv_ops_module
from tests.processes import run_program

pytest.importorskip('torchvision')


def test_other_operators_import_and_say_on_use_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'mmcv.ops', sys.modules.get('mmcv.ops'))
    for name in mmcv_ops_module.SUBMODULES:
        full = f'mmcv.ops.{name}'
        monkeypatch.setitem(sys.modules, full, sys.modules.get(full))
    import mmcv

    monkeypatch.setattr(mmcv, 'ops', None, raising=False)
    mmcv_ops_module.install()
    from mmcv.ops import DeformConv2d, RoIAlign
    from mmcv.ops.carafe import CARAFEPack

    assert RoIAlign is mmcv_ops.RoIAlign
    assert not isinstance(torch.nn.Conv2d(1, 1, 1), DeformConv2d)
    with pytest.raises(NotImplementedError, match=r'no operator CARAFEPack.*mmcv==2\.1\.0'):
        CARAFEPack(8)


IMPORTED_BEFORE = """
import sys
import mmcv.cnn, mmengine.model  # as a user's script may, before it imports this package
import cvrl_mm
compiled = 'mmcv._ext' in sys.modules
import mmcv.ops
print(compiled or mmcv.ops.__file__ == cvrl_mm.mmcv_ops_module.__file__)
import mmdet.models
from mmaction.registry import MODELS
assert MODELS.get('mmdet.AVARoIHead')
"""


def test_mmdet_loads_whatever_was_imported_before():
    pytest.importorskip('mmdet')
    run = run_program(
        [sys.executable, '-W', 'ignore', '-c', IMPORTED_BEFORE],
    )
    assert run.stdout.strip() == 'True', run.stderr
    assert run.returncode == 0, run.stderr
