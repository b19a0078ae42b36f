"""Both detectors run on synthetic AVA; the one on given boxes learns its motions."""

from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

from tools.data.make_synthetic_ava import write_synthetic_ava

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / 'data' / 'synthetic_ava'


def runner(name: str, epochs: int, **options) -> Runner:
    cfg = Config.fromfile(CONFIGS / f'{name}.py')
    cfg.work_dir = name
    cfg.log_level = 'WARNING'
    cfg.train_dataloader.batch_size = 4
    cfg.train_cfg.update(max_epochs=epochs, val_interval=epochs)
    cfg.merge_from_dict(options)
    return Runner.from_cfg(cfg)


def test_a_detector_learns_motions(root: Path):
    write_synthetic_ava(root, num_train=32, num_val=8)
    schedule = {'param_scheduler.1.milestones': [4], 'param_scheduler.1.end': 6}
    name = 'synthetic_ava_fast_rcnn'
    random = runner(name, 6).test()['mAP/overall']
    trained = runner(name, 6, **schedule)
    trained.train()
    assert trained.message_hub.get_scalar('val/mAP/overall').current() > random + 0.15


def test_a_detector_with_a_proposal_network_is_resumed_and_tested(root: Path):
    write_synthetic_ava(root, num_train=2, num_val=1)
    name = 'synthetic_ava_faster_rcnn'
    runner(name, 1).train()
    resumed = runner(name, 2, resume=True)
    resumed.train()
    steps = len(resumed.train_dataloader)
    assert (resumed.epoch, resumed.iter) == (2, 2 * steps)
    validated = resumed.message_hub.get_scalar('val/mAP/overall').current()
    tested = runner(name, 2, load_from=f'{name}/epoch_2.pth').test()['mAP/overall']
    assert tested == pytest.approx(validated, abs=1e-4)
