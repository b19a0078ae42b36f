from pathlib import Path
from types import SimpleNamespace

import pytest
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
        ('scikit-learn==1; python_version < "3"', []),
        ('# torch==1\n\nnothing_of_this_name==1', []),
    ],
)
def test_versions(tested: str, statuses: list[str], tmp_path: Path):
    (tmp_path / 'constraints.txt').write_text(f'{tested}\n')
    assert [f.status for f in doctor.check_versions(tmp_path / 'constraints.txt')] == statuses


def test_problems_are_told(tmp_path: Path, monkeypatch):
    def fail(*args: object) -> None:
        raise OSError('no encoder')

    monkeypatch.setattr(doctor, 'encode', fail)
    assert doctor.check_decoding().status == 'problem'
    monkeypatch.setattr('importlib.metadata.version', lambda name: '2.1.0')
    (tmp_path / 'constraints.txt').write_text('mmcv==2.1.0\nmmcv-lite==2.1.0\n')
    *_, last = doctor.check_versions(tmp_path / 'constraints.txt')
    assert (last.status, last.name) == ('problem', 'mmcv')


@pytest.mark.parametrize(
    ('ranks', 'steps', 'scaling', 'status', 'words'),
    [
        (8, 1, {}, 'ok', '8 x 128 videos'),
        (2, 1, {}, 'note', 'lr=0.08'),
        (2, 1, dict(enable=True), 'ok', '2 x 128 videos'),
        (2, 4, {}, 'ok', '4 accumulated'),
        (2, 2, {}, 'note', 'lr=0.16'),
        (8, 1, dict(base_batch_size=0), 'note', 'base_batch_size'),
        (2, 4, dict(enable=True), 'note', 'lr=0.32'),  # mmengine would scale 0.32 to 0.08
    ],
)
def test_learning_rate(ranks: int, steps: int, scaling: dict, status: str, words: str):
    config = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
    config.optim_wrapper.accumulative_counts = steps
    config.auto_scale_lr.update(scaling)
    finding = doctor.check_learning_rate(config, ranks)
    assert finding.status == status and words in str(finding)
    del config.optim_wrapper.optimizer
    assert doctor.check_learning_rate(config, ranks).status == 'problem'


@pytest.mark.parametrize(
    ('workers', 'has_gpu', 'free_batches', 'status', 'words'),
    [
        (2, False, 8, 'ok', 'on 2 cores per rank'),
        (3, False, 12, 'note', 'fewer cores than workers (2 x 3)'),
        (2, True, 8, 'note', 'cores and workers per rank are needed; repack'),
        (2, False, 7, 'problem', 'shared memory'),
        (0, False, 0, 'ok', 'on 2 cores per rank'),
    ],
)
def test_the_loader_is_compared_with_the_machine(
    workers: int,
    has_gpu: bool,
    free_batches: int,
    status: str,
    words: str,
    motion_set: Path,
    monkeypatch,
):
    monkeypatch.setattr(doctor, 'usable_cores', lambda: 4)
    monkeypatch.setattr(doctor.torch.cuda, 'is_available', lambda: has_gpu)
    monkeypatch.setattr(doctor, 'STEP_SECONDS_PER_VIDEO', 1e-6)  # the GPU is always faster
    config = Config.fromfile(ROOT / 'configs/miniature/cvrl_motion.py')
    config.model.backbone.depth = 50
    config.train_dataloader.dataset.ann_file = str(motion_set / 'train.txt')
    config.train_dataloader.dataset.data_prefix = dict(video=str(motion_set))
    config.train_dataloader.update(num_workers=workers, batch_size=8)
    free = free_batches * 8 * 2 * 3 * 8 * 32 * 32
    monkeypatch.setattr(doctor.shutil, 'disk_usage', lambda path: SimpleNamespace(free=free))
    finding = doctor.check_loader(config, ranks=2)
    assert finding.status == status and words in str(finding)
    config.train_dataloader.batch_size = 9
    few = doctor.check_loader(config, ranks=2)
    assert few.status == 'problem' and '16 videos' in str(few)
    config.train_dataloader.dataset.ann_file = 'missing.txt'
    assert 'missing.txt' in str(doctor.check_loader(config, ranks=2))
