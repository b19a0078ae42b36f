import sys
import warnings
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmaction.evaluation import average_recall_at_avg_proposals
from mmaction.evaluation.functional.ava_evaluation import metrics
from mmaction.registry import MODELS
from mmaction.utils import dependency
from mmengine.config import Config
from mmengine.device import get_device

from cvrl_mm import compat


def test_import_without_mmcv_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(util, 'find_spec', lambda name: None)
    with pytest.raises(ImportError, match='pip install mmcv-lite'):
        compat.require_mmcv()


def test_drn_is_stood_in_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    name = 'mmaction.models.localizers.drn'
    for module in (name, f'{name}.drn'):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr('mmaction.__file__', str(tmp_path / '__init__.py'))
    compat.stand_in_for_drn()
    with pytest.raises(ImportError, match='mmaction2#2714'):
        sys.modules[name].drn.DRN()


@pytest.mark.parametrize(
    ('version', 'timm', 'loads'),
    [('4.55.4', 'timm', True), ('4.55.4', None, False), ('5.0', 'timm', False)],
)
def test_multimodal_models_are_left_out_where_they_cannot_be_imported(
    version: str, timm: str | None, loads: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dependency, 'WITH_MULTIMODAL', True)
    monkeypatch.setattr(dependency, 'distribution', lambda name: SimpleNamespace(version=version))
    monkeypatch.setattr(util, 'find_spec', lambda name: timm)
    compat.leave_out_multimodal()
    assert dependency.WITH_MULTIMODAL is loads


def test_mmactions_metrics_run_under_any_numpy():
    results = dict(v=np.array([[0, 0.5, 0.9], [0.5, 1, 0.8]]))
    truth = dict(v=np.array([[0, 0.5], [0.5, 1]]))
    _, recall, _, area = average_recall_at_avg_proposals(
        truth, results, total_num_proposals=2, temporal_iou_thresholds=np.array([0.5])
    )
    assert recall[-1] == 1 and 0 < area <= 100  # trapz
    assert np.isnan(metrics.compute_average_precision(None, None))  # NAN
    names = {name for name in compat.NUMPY_1_NAMES if hasattr(np, name)}
    compat.names_of_numpy_1()
    assert {name for name in compat.NUMPY_1_NAMES if hasattr(np, name)} == names


def test_configs_can_be_inherited_by_package(tmp_path: Path):
    """Bare names in our configs are MMAction2's (its own: tests/test_drop_in.py)."""
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/pretrain_k400_r3d101.py'\n")
    cfg = Config.fromfile(tmp_path / 'leaf.py')
    with torch.device('meta'):
        model = MODELS.build(cfg.model)
    assert model.backbone.depth == 101
    # a scope noted in its dicts would reach collate_fn, and no batch could be made
    file = Path(compat.__file__).parent / '.mim/configs/cvrl/pretrain_k400_r3d101.py'
    assert cfg.to_dict() == Config.fromfile(file).to_dict()
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/nothing.py'\n")
    with pytest.raises(FileNotFoundError, match=r'cvrl/nothing\.py'):
        Config.fromfile(tmp_path / 'leaf.py')


def test_listed_warnings_are_hidden_unless_the_user_wants_them():
    def seen() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            for message in (f'{compat.WARNINGS[0]} somewhere', 'a real one'):
                warnings.warn(message, UserWarning, stacklevel=1)
        return [str(warning.message) for warning in caught]

    with warnings.catch_warnings():
        warnings.resetwarnings()
        compat.hide_warnings()
        assert seen() == ['a real one']
        warnings.simplefilter('error')  # as -W error does
        with pytest.raises(UserWarning, match='Fail to import'):
            seen()


def test_the_gpu_of_a_mac_is_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('mmengine.device.utils.DEVICE', 'mps')
    compat.train_macs_on_the_cpu()
    assert get_device() == 'cpu'
