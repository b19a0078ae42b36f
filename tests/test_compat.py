import importlib.util
import os
import pickle
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
from mmengine.runner.loops import _InfiniteDataloaderIterator
from mmengine.utils import digit_version
from torch import nn
from torch.utils.data import DataLoader

from cvrl_mm import compat
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


def test_stock_checkpoint_resumes(tmp_path: Path):
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


def test_foreign_weights_run_no_code(tmp_path: Path):
    torch.save(dict(state_dict={}, trap=Trap(tmp_path / 'sprung')), tmp_path / 'foreign.pth')
    runner = toy_runner(tmp_path / 'a', load_from=str(tmp_path / 'foreign.pth'))
    with pytest.raises(pickle.UnpicklingError):
        runner.train()
    assert not (tmp_path / 'sprung').exists()


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


def normalise(uneven: bool) -> dict[str, torch.Tensor]:
    """One synchronised forward and backward of this rank's share of a batch."""
    from mmengine.dist import get_rank

    clips = clip_batch()
    norm = torch.nn.SyncBatchNorm(3).double()
    shares = clips.split([1, 3]) if uneven else clips.chunk(2)
    x = shares[get_rank()].clone().requires_grad_()
    weights = weight_batch().split([1, 3]) if uneven else weight_batch().chunk(2)
    (norm(x) * weights[get_rank()]).sum().backward()
    return dict(grad=x.grad, mean=norm.running_mean, var=norm.running_var)


def clip_batch() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 3, 2, 3, 3, generator=generator, dtype=torch.double) * 5 + 2


def weight_batch() -> torch.Tensor:
    return torch.randn(clip_batch().shape, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize('uneven', [False, True])
def test_batch_norm_of_cpu_ranks_equals_one_process(uneven: bool, tmp_path: Path):
    norm, x = torch.nn.BatchNorm3d(3).double(), clip_batch().requires_grad_()
    (norm(x) * weight_batch()).sum().backward()
    results = run_ranks(normalise, 2, tmp_path, uneven)
    grad = torch.cat([r['grad'] for r in results])
    torch.testing.assert_close(grad, x.grad, rtol=1e-9, atol=1e-12)
    for result in results:
        torch.testing.assert_close(result['mean'], norm.running_mean)
        torch.testing.assert_close(result['var'], norm.running_var)


def test_a_loop_counted_in_steps_opens_its_loader_at_the_first_step(monkeypatch):
    loader = DataLoader(range(3))
    torch.manual_seed(0)
    iter(loader)  # as mmengine does on building the loop
    expected = torch.rand(1)

    opened, open_loader = [], DataLoader.__iter__
    monkeypatch.setattr(DataLoader, '__iter__', lambda x: opened.append(x) or open_loader(x))
    torch.manual_seed(0)
    batches = _InfiniteDataloaderIterator(loader)
    assert not opened
    assert torch.rand(1) == expected  # the weights are those of the seed
    assert [int(next(batches)) for _ in range(3)] == [0, 1, 2]
    assert opened == [loader]


def normalise_in_bfloat16() -> dict[str, torch.Tensor]:
    norm = torch.nn.SyncBatchNorm(3)
    return dict(y=norm(clip_batch().bfloat16()), mean=norm.running_mean)


def test_batch_norm_of_cpu_ranks_keeps_float32_statistics_under_autocast(tmp_path: Path):
    for result in run_ranks(normalise_in_bfloat16, 2, tmp_path):
        assert result['y'].dtype == torch.bfloat16
        expected = 0.1 * clip_batch().mean((0, 2, 3, 4)).float()
        torch.testing.assert_close(result['mean'], expected, rtol=0, atol=2e-3)


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
