import importlib.util
import os
import pickle
import pkgutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import PoseCompact
from mmaction.evaluation import RetrievalRecall, average_recall_at_avg_proposals
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.device import get_device
from mmengine.utils import digit_version
from mmengine.utils.dl_utils.misc import mmcv_full_available
from torch import nn

from cvrl_mm import compat, mmcv_ops_module
from cvrl_mm.models import weights as weights_only
from tests.ranks import run_ranks
from tests.toy import toy_runner


def test_import_without_mmcv_says_what_to_install(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'mmcv' else find_spec(name)
    )
    with pytest.raises(ImportError, match='pip install mmcv-lite'):
        compat.require_mmcv()


def test_import_without_mmaction_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(ImportError, match='pip install mmaction2'):
        compat.stand_in_for_drn()


def test_drn_is_stood_in_for_only_where_it_is_missing(monkeypatch, tmp_path: Path):
    name = 'mmaction.models.localizers.drn'
    monkeypatch.delitem(sys.modules, name, raising=False)
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, 'find_spec', lambda _: spec)
    (tmp_path / 'models' / 'localizers' / 'drn').mkdir(parents=True)
    compat.stand_in_for_drn()
    assert name not in sys.modules
    (tmp_path / 'models' / 'localizers' / 'drn').rmdir()
    monkeypatch.setitem(sys.modules, f'{name}.drn', None)
    compat.stand_in_for_drn()
    with pytest.raises(ImportError, match='mmaction2#2714'):
        sys.modules[name].drn.DRN()


@pytest.mark.parametrize('compiled', [False, True])
def test_compiled_operators_are_left_alone(compiled: bool, monkeypatch):
    monkeypatch.delitem(sys.modules, 'mmcv.ops', raising=False)
    installed = {'mmdet', 'torchvision', *(['mmcv._ext'] if compiled else [])}
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name in installed or None)
    replaced = []
    monkeypatch.setattr(mmcv_ops_module, 'install', lambda: replaced.append(True))
    compat.operators_from_torchvision()
    assert bool(replaced) != compiled


def test_mmcvs_operators_are_looked_for_on_python_3_14(monkeypatch):
    monkeypatch.delattr(pkgutil, 'find_loader', raising=False)
    compat.find_loaders()
    assert mmcv_full_available() == bool(importlib.util.find_spec('mmcv._ext'))
    assert pkgutil.find_loader('mmcv').is_package('mmcv')
    assert pkgutil.find_loader('mmcv.nothing') is None


def test_mmactions_evaluation_runs_under_any_numpy():
    results = dict(v=np.array([[0, 0.5, 0.9], [0.5, 1, 0.8]]))
    truth = dict(v=np.array([[0, 0.5], [0.5, 1]]))
    _, recall, _, area = average_recall_at_avg_proposals(
        truth, results, total_num_proposals=2, temporal_iou_thresholds=np.array([0.5])
    )
    assert recall[-1] == 1 and 0 < area <= 100  # trapz
    recalls = RetrievalRecall.calculate([[1, 2]], [[2]], (1, 2), True, True)
    assert recalls == [0, 100]  # in1d
    whole = PoseCompact()(
        dict(img_shape=(32, 32), keypoint=np.array([[[[4.0, 4], [20, 20]]]], np.float32))
    )
    assert whole['img_shape'] == (20, 20)  # Inf


def test_numpy_itself_stays_as_it_is():
    names = {name for name in compat.NUMPY_1_NAMES if hasattr(np, name)}
    compat.names_of_numpy_1()
    assert {name for name in compat.NUMPY_1_NAMES if hasattr(np, name)} == names


def test_configs_can_be_inherited_by_package(tmp_path: Path):
    """Bare names in our configs are MMAction2's (its own: tests/test_drop_in.py)."""
    assert MODULE2PACKAGE['cvrl_mm'] == 'cvrl_mm'
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/pretrain_k400_r3d101.py'\n")
    cfg = Config.fromfile(tmp_path / 'leaf.py')
    with torch.device('meta'):
        model = MODELS.build(cfg.model)
    assert model.backbone.depth == 101


def test_an_inherited_config_is_as_its_file_says(tmp_path: Path):
    """A scope noted in its dicts would reach ``collate_fn``, and no batch could be made."""
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/pretrain_k400.py'\n")
    file = Path(compat.__file__).parent / '.mim' / 'configs' / 'cvrl' / 'pretrain_k400.py'
    assert Config.fromfile(tmp_path / 'leaf.py').to_dict() == Config.fromfile(file).to_dict()


def test_unknown_config_of_ours_is_named(tmp_path: Path):
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/nothing.py'\n")
    with pytest.raises(FileNotFoundError, match=r'cvrl/nothing\.py'):
        Config.fromfile(tmp_path / 'leaf.py')


@pytest.mark.parametrize('refuse', [False, True])
def test_stock_checkpoint_resumes(refuse: bool, tmp_path: Path):
    if refuse:
        weights_only.refuse_foreign_code()
    toy_runner(tmp_path / 'a').train()
    path = str(tmp_path / 'a' / 'epoch_2.pth')
    with pytest.raises(pickle.UnpicklingError):  # it holds mmengine's message hub
        torch.load(path, weights_only=True)
    runner = toy_runner(
        tmp_path / 'b', train_cfg=dict(by_epoch=True, max_epochs=3), load_from=path, resume=True
    )
    runner.train()
    assert runner.epoch == 3


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.skipif(
    digit_version(torch.__version__) < digit_version('2.6'),
    reason='this torch cannot load weights and a log history alone',
)
def test_resuming_runs_no_foreign_code(tmp_path: Path):
    toy_runner(tmp_path / 'a').train()
    path = str(tmp_path / 'a' / 'epoch_2.pth')
    stock = torch.load(path, weights_only=False)
    for trap in (Trap(tmp_path / 'sprung'), Reader()):
        torch.save(dict(stock, trap=trap), path)
        with pytest.raises(pickle.UnpicklingError):
            toy_runner(tmp_path / 'b', load_from=path, resume=True).train()
    assert not (tmp_path / 'sprung').exists()


class Reader:
    """Unpickled, it reads an attribute of torch."""

    def __reduce__(self):
        return getattr, (torch.Tensor, 'mro')


def fork_under(version: tuple[int, int]) -> list[float]:
    """The pauses that a rank makes before it forks."""
    pauses = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'version_info', version)
        compat.wait_before_forks_of_ranks()
        patch.setattr(compat.time, 'sleep', pauses.append)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return pauses


def test_ranks_wait_before_they_fork_under_a_python_that_needs_it(tmp_path: Path):
    assert run_ranks(fork_under, 2, tmp_path, (3, 11)) == [[0.05], [0.05]]


@pytest.mark.skipif(sys.version_info < (3, 12), reason='ranks wait under this Python')
def test_ranks_do_not_wait_under_later_ones(tmp_path: Path):
    assert run_ranks(fork_under, 2, tmp_path, (3, 12)) == [[], []]


@pytest.mark.parametrize('raised', [KeyboardInterrupt, ValueError])
def test_ctrl_c_while_a_config_is_formatted(raised: type[BaseException], monkeypatch):
    def format_code(*args, **kwargs):
        raise raised

    monkeypatch.setattr('mmengine.config.config.FormatCode', format_code)
    compat.interrupt_formatting_of_configs()  # applied once
    with pytest.raises(KeyboardInterrupt if raised is KeyboardInterrupt else SyntaxError):
        _ = Config(dict(a=1)).pretty_text


def test_batch_norm_takes_no_mask_that_the_host_reads(monkeypatch):
    def forward(self: nn.SyncBatchNorm, x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 0:
            raise ValueError('empty')
        return x if torch.cuda.is_current_stream_capturing() else x[x > 0]

    monkeypatch.setattr(nn.SyncBatchNorm, 'forward', forward)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'is_current_stream_capturing', capturing := lambda: False)
    for _ in range(2):  # applied once
        compat.keep_batch_norm_asynchronous()
    norm = nn.SyncBatchNorm(2)
    assert norm.forward(torch.zeros(3)).shape == (3,)
    with pytest.raises(ValueError, match='empty'):
        norm.forward(torch.zeros(0))
    assert torch.cuda.is_current_stream_capturing is capturing
    assert forward(norm, torch.zeros(3)).shape == (0,)


@pytest.mark.parametrize(('chosen', 'used'), [('mps', 'cpu'), ('cuda', 'cuda'), ('cpu', 'cpu')])
def test_macs_use_the_cpu(monkeypatch: pytest.MonkeyPatch, chosen: str, used: str):
    monkeypatch.setattr('mmengine.device.utils.DEVICE', chosen)
    compat.avoid_mps()
    assert get_device() == used
