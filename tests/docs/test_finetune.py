from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from cvrl_mm import load_encoder
from cvrl_mm.encoder.recognizers import build_recognizer
from tests.tiny import save_backbone
from tests.videos import encode

EXAMPLE = Path(__file__).parents[2] / 'docs/examples/finetune.py'


def test_the_config_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As printed, but with a smaller network and smaller clips."""
    monkeypatch.chdir(tmp_path)
    Path('data/videos').mkdir(parents=True)
    for i in range(4):
        encode(Path(f'data/videos/{i}.mp4'))
    for name in ('train', 'val'):
        Path(f'data/{name}.txt').write_text(''.join(f'{i}.mp4 {2 * i}\n' for i in range(4)))
    save_backbone(Path('k400.pth'))
    cfg = Config.fromfile(EXAMPLE)
    cfg.model.backbone.update(depth=18, width=0.125)
    cfg.model.cls_head.in_channels = 64
    for split in ('train', 'val'):
        loader = cfg[f'{split}_dataloader']
        loader.update(batch_size=2, num_workers=0, persistent_workers=False)
        loader.dataset.pipeline[1].clip_len = 4
    cfg.train_dataloader.dataset.pipeline[3].transforms[1].scale = (32, 32)
    cfg.val_dataloader.dataset.pipeline[3].scale = (-1, 32)
    cfg.val_dataloader.dataset.pipeline[4].crop_size = 32
    cfg.train_cfg.update(max_epochs=2, val_interval=2)
    cfg.update(work_dir=str(tmp_path / 'work'), experiment_name='finetune')
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.iter == 4 and 'val/acc/top1' in runner.message_hub.log_scalars
    trained = load_encoder('work/epoch_2.pth').backbone.conv1.conv.weight.flatten()
    started = torch.load('k400.pth')['state_dict']['backbone.conv1.conv.weight'].flatten()
    assert torch.cosine_similarity(trained, started, dim=0) > 0.5  # not anew
    assert not torch.equal(trained, started)
    cfg.model.backbone.init_cfg.checkpoint = 'work/epoch_2.pth'
    again = build_recognizer(cfg).backbone.conv1.conv.weight.flatten()
    assert torch.equal(again, trained)
