"""Both detectors learn the motions of synthetic AVA, resume and are tested."""

from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

from cvrl_mm.synthetic.ava_movies import write_synthetic_ava

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'
# 6 epochs of 24 steps instead of 8 of twice the batch
SMALLER = {
    'train_dataloader.batch_size': 4,
    'train_cfg.max_epochs': 6,
    'param_scheduler.1.milestones': [4],
    'param_scheduler.1.end': 6,
    'train_cfg.val_interval': 6,
}


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write data/synthetic_ava into a folder and return the folder."""
    root = tmp_path_factory.mktemp('ava')
    write_synthetic_ava(root / 'data' / 'synthetic_ava', num_train=32, num_val=8)
    return root


def runner(name: str, **options) -> Runner:
    cfg = Config.fromfile(CONFIGS / f'{name}.py')
    cfg.work_dir = name
    cfg.log_level = 'WARNING'
    cfg.merge_from_dict({**SMALLER, **options})
    return Runner.from_cfg(cfg)


def evaluate(name: str, checkpoint: str | None) -> float:
    return runner(name, load_from=checkpoint).test()['mAP/overall']


@pytest.mark.parametrize('name', ['synthetic_ava_fast_rcnn', 'synthetic_ava_faster_rcnn'])
def test_a_detector_tells_motions_apart(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.chdir(root)
    random = evaluate(name, None)
    runner(name, **{'train_cfg.max_epochs': 4}).train()
    resumed = runner(name, resume=True)
    resumed.train()
    assert (resumed.epoch, resumed.iter) == (6, 6 * 24)
    during_training = resumed.message_hub.get_scalar('val/mAP/overall').current()
    trained = evaluate(name, f'{name}/epoch_6.pth')
    with capsys.disabled():
        print(f'\n{name}: mAP {trained:.3f}, with random weights {random:.3f}')
    assert trained == pytest.approx(during_training, abs=1e-4)
    assert trained > random + 0.15
