from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm import doctor

ROOT = Path(__file__).parents[1]


def test_the_report_of_this_installation(capsys, monkeypatch):
    monkeypatch.setattr(doctor, 'check_versions', lambda tested: [])
    config = ROOT / 'configs/miniature/cvrl_motion.py'
    assert doctor.report(str(config), ranks=1) == 0
    shown = capsys.readouterr().out
    for text in ('decode and augment: 2x3x16x224x224', 'learning rate', 'loader'):
        assert text in shown


@pytest.mark.parametrize(
    ('tested', 'status'),
    [
        ('torch==99', 'note'),
        ('torch>=2', 'ok'),
        ('scikit-learn==1; python_version < "3"', None),
        ('# torch==1\n\nnothing_of_this_name==1', None),
        ('nothing_required==1', 'problem'),
    ],
)
def test_versions(tested: str, status: str | None, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(doctor, 'REQUIRED', ('nothing_required',))
    (tmp_path / 'constraints.txt').write_text(f'{tested}\n')
    found = [f.status for f in doctor.check_versions(tmp_path / 'constraints.txt')]
    assert found == ([] if status is None else [status])


def test_two_mmcvs_are_a_problem(tmp_path: Path, monkeypatch):
    monkeypatch.setattr('importlib.metadata.version', lambda name: '2.1.0')
    (tmp_path / 'constraints.txt').write_text('mmcv==2.1.0\nmmcv-lite==2.1.0\n')
    *_, last = doctor.check_versions(tmp_path / 'constraints.txt')
    assert last.status == 'problem' and 'overwrite' in last.seen


def test_a_decoder_that_fails_is_a_problem(monkeypatch):
    def fail(*args: object) -> None:
        raise OSError('no encoder')

    monkeypatch.setattr('av.open', fail)
    assert doctor.check_decoding().status == 'problem'


@pytest.mark.parametrize(
    ('ranks', 'changes', 'status', 'words'),
    [
        (8, {}, 'ok', 'as the config expects'),
        (2, {}, 'note', 'lr=0.08'),
        (2, {'auto_scale_lr.enable': True}, 'ok', 'scaled to 0.08'),
        (2, {'optim_wrapper.accumulative_counts': 4}, 'ok', '4 accumulated = 1024'),
        (2, {'optim_wrapper.accumulative_counts': 2}, 'note', 'lr=0.16'),
        (8, {'auto_scale_lr.base_batch_size': None}, 'note', 'base_batch_size'),
        # mmengine would scale 0.32 to 0.08
        (
            2,
            {'optim_wrapper.accumulative_counts': 4, 'auto_scale_lr.enable': True},
            'note',
            'lr=0.32',
        ),
    ],
)
def test_learning_rate(ranks: int, changes: dict, status: str, words: str):
    config = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
    config.merge_from_dict(changes)
    finding = doctor.check_learning_rate(config, ranks)
    assert finding.status == status and words in str(finding)


def test_loader(motion_set: Path, monkeypatch):
    monkeypatch.setattr(doctor, 'usable_cores', lambda: 4)
    config = Config.fromfile(ROOT / 'configs/miniature/cvrl_motion.py')
    config.train_dataloader.dataset.ann_file = str(motion_set / 'train.txt')
    config.train_dataloader.dataset.data_prefix = dict(video=str(motion_set))
    for workers, status in ((2, 'ok'), (3, 'note')):
        config.train_dataloader.num_workers = workers
        found = doctor.check_loader(config, ranks=2)
        assert found.status == status and '(16 loaded)' in found.seen
