from pathlib import Path

import numpy as np
import torch

from tests.toy import toy_runner


def test_checkpoint_loads_as_weights_alone_and_resumes(tmp_path: Path):
    hooks = [dict(type='WeightsOnlyCheckpointHook')]
    first = toy_runner(tmp_path / 'a', custom_hooks=hooks)
    first.train()
    path = tmp_path / 'a' / 'epoch_2.pth'
    checkpoint = torch.load(path, weights_only=True)
    assert set(checkpoint['message_hub']['log_scalars']) >= {'train/loss', 'train/lr'}

    cfg = dict(by_epoch=True, max_epochs=3)
    second = toy_runner(
        tmp_path / 'b', custom_hooks=hooks, train_cfg=cfg, load_from=str(path), resume=True
    )
    second.train()
    before, after = (r.message_hub.get_scalar('train/loss').data for r in (first, second))
    np.testing.assert_array_equal(after[0][: len(before[0])], before[0])
    assert len(after[0]) == len(before[0]) + 2 and second.epoch == 3
