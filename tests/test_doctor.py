from pathlib import Path
from types import SimpleNamespace

import mmcv
import pytest
import torch
from mmengine.config import Config

from cvrl_mm import doctor

ROOT = Path(__file__).parents[1]


def test_the_report_of_this_installation(motion_set: Path, tmp_path: Path, capsys):
    config = tmp_path / 'config.py'
    dataset = f"dict(ann_file='{motion_set}/train.txt', data_prefix=dict(video='{motion_set}'))"
    config.write_text(
        f"_base_ = '{ROOT}/configs/miniature/cvrl_motion.py'\n"
        f'train_dataloader = dict(batch_size=8, num_workers=1, dataset={dataset})\n'
    )
    assert doctor.report(str(config), ranks=1) == 0
    shown = capsys.readouterr().out
    for text in ('torch: ', 'decode and augment: 2x3x16x224x224', 'learning rate', '(16 loaded)'):
        assert text in shown


@pytest.mark.parametrize(
    ('tested', 'statuses'),
    [
        ('torch==99', ['note']),
        ('torch>=2', ['ok']),
        ('# torch==1\nscikit-learn==1; python_version < "3"\nnothing_of_this_name==1', []),
    ],
)
def test_versions(tested: str, statuses: list[str], tmp_path: Path):
    (tmp_path / 'constraints.txt').write_text(f'{tested}\n')
    assert [f.status for f in doctor.check_versions(tmp_path / 'constraints.txt')] == statuses


def test_two_mmcvs_are_a_problem(tmp_path: Path, monkeypatch):
    monkeypatch.setattr('importlib.metadata.version', lambda name: '2.1.0')
    (tmp_path / 'constraints.txt').write_text('mmcv==2.1.0\nmmcv-lite==2.1.0\n')
    *_, last = doctor.check_versions(tmp_path / 'constraints.txt')
    assert (last.status, last.name) == ('problem', 'mmcv')


def test_operators_that_do_not_load_are_a_problem(tmp_path: Path, monkeypatch):
    (tmp_path / '_ext.py').write_text("raise ImportError('undefined symbol: x')\n")
    monkeypatch.setattr(mmcv, '__path__', [*mmcv.__path__, str(tmp_path)])
    (tmp_path / 'constraints.txt').touch()
    (found,) = doctor.check_versions(tmp_path / 'constraints.txt')
    assert found.status == 'problem' and 'undefined symbol' in found.seen


BUILD = ['sm_75', 'sm_80', 'sm_90a', 'compute_90']


@pytest.mark.parametrize(
    ('capability', 'build', 'cudnn', 'torch_version', 'statuses'),
    [
        ((7, 0), BUILD, 92000, '2.15.0', ['problem']),
        ((7, 5), BUILD, 92000, '2.15.0', ['note']),
        ((8, 9), BUILD, 92000, '2.15.0', ['ok']),
        ((12, 0), BUILD, 92000, '2.15.0', ['ok']),  # by intermediate code
        ((12, 0), BUILD[:-1], 92000, '2.6.0', ['problem']),
        ((9, 0), BUILD, 91002, '2.8.0', ['ok', 'problem']),
        ((9, 0), BUILD, 91002, '2.9.1', ['ok', 'note']),
        ((9, 0), ['gfx942'], None, '2.15.0', ['ok']),
    ],
)
def test_gpus(
    capability: tuple[int, int],
    build: list[str],
    cudnn: int | None,
    torch_version: str,
    statuses: list[str],
    monkeypatch: pytest.MonkeyPatch,
):
    major, minor = capability
    card = SimpleNamespace(name='card', total_memory=80 << 30, major=major, minor=minor)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 8)
    monkeypatch.setattr(torch.cuda, 'get_device_properties', lambda i: card)
    monkeypatch.setattr(torch.cuda, 'get_arch_list', lambda: build)
    monkeypatch.setattr(torch.backends.cudnn, 'version', lambda: cudnn)
    monkeypatch.setattr(torch, '__version__', type(torch.__version__)(torch_version))
    assert [finding.status for finding in doctor.check_gpus()] == statuses


@pytest.mark.parametrize(
    ('driver', 'hidden', 'status'),
    [(None, None, 'note'), ('/bin/nvidia-smi', None, 'problem'), ('/bin/nvidia-smi', '', 'note')],
)
def test_no_gpu(driver: str | None, hidden: str | None, status: str, monkeypatch):
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    if hidden is not None:
        monkeypatch.setenv('CUDA_VISIBLE_DEVICES', hidden)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)
    monkeypatch.setattr(doctor.shutil, 'which', lambda name: driver)
    (finding,) = doctor.check_gpus()
    assert finding.status == status


def test_missing_lists_checkpoints_and_cards_are_problems(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    config = Config.fromfile(ROOT / 'configs/linear/linear_ucf101_split1.py')
    named = {x.seen.split()[0] for x in doctor.check_files(config)}
    encoder = 'work_dirs/pretrain_k400/epoch_800.pth'
    lists = {f'data/ucf101/ucf101_{x}_split_1_videos.txt' for x in ('train', 'val')}
    assert named == {encoder, *lists}
    for name in named:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert doctor.check_files(config) == []
    config.load_from = 'gone.pth'
    found = [*doctor.check_files(config), *doctor.check_card(config)]
    assert [x.status for x in found] == ['problem', 'problem']


@pytest.mark.parametrize(
    ('ranks', 'base', 'words'), [(8, 1024, ''), (2, 1024, 'lr=0.08'), (8, 0, 'base_batch_size')]
)
def test_learning_rate(ranks: int, base: int, words: str):
    config = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
    config.auto_scale_lr.base_batch_size = base
    finding = doctor.check_learning_rate(config, ranks)
    assert finding.status == ('note' if words else 'ok') and words in finding.advice


@pytest.mark.parametrize(
    ('workers', 'free_batches', 'status'),
    [(2, 8, 'ok'), (3, 12, 'note'), (2, 7, 'problem'), (0, 0, 'ok')],
)
def test_the_loader_is_compared_with_the_machine(
    workers: int, free_batches: int, status: str, motion_set: Path, monkeypatch
):
    monkeypatch.setattr(doctor, 'usable_cores', lambda: 4)
    config = Config.fromfile(ROOT / 'configs/miniature/cvrl_motion.py')
    config.train_dataloader.dataset.ann_file = str(motion_set / 'train.txt')
    config.train_dataloader.dataset.data_prefix = dict(video=str(motion_set))
    config.train_dataloader.update(num_workers=workers, batch_size=8)
    free = free_batches * 8 * 2 * 3 * 8 * 32 * 32
    monkeypatch.setattr(doctor.shutil, 'disk_usage', lambda path: SimpleNamespace(free=free))
    assert doctor.check_loader(config, ranks=2).status == status
    with monkeypatch.context() as patch:  # whatever a GPU needs less than a millisecond for
        patch.setattr(torch.cuda, 'is_available', lambda: True)
        patch.setattr(doctor, 'STEP_SECONDS_PER_VIDEO', 1e-6)
        config.model.backbone.depth = 50
        assert doctor.check_loader(config, ranks=2).status == status.replace('ok', 'note')
    config.train_dataloader.batch_size = 9  # for two ranks, the 16 videos are less than a batch
    assert doctor.check_loader(config, ranks=2).status == 'problem'
    config.train_dataloader.dataset.ann_file = 'missing.txt'
    assert 'missing.txt' in str(doctor.check_loader(config, ranks=2))
