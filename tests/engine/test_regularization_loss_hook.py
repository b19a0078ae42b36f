from pathlib import Path

import pytest

from tests.toy import toy_runner

KERNELS_ALONE = dict(norm_decay_mult=0.0, bias_decay_mult=0.0)


def runner_with_hook(folder: Path, weight_decay: float):
    return toy_runner(
        folder,
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(
            type='OptimWrapper',
            optimizer=dict(type='SGD', lr=0.1, weight_decay=weight_decay),
            paramwise_cfg=KERNELS_ALONE,
        ),
        custom_hooks=[dict(type='RegularizationLossHook')],
    )


def test_logs_half_the_decay_times_the_squared_norm_of_kernels(tmp_path: Path):
    runner = runner_with_hook(tmp_path, 0.02)
    runner.train()
    logged = runner.message_hub.get_scalar('train/regularization_loss').current()
    squared = runner.model.layer.weight.square().sum().item()
    assert logged == pytest.approx(0.01 * squared, rel=1e-6)
    assert len(runner.message_hub.get_scalar('train/regularization_loss').data[0]) == 2


def test_is_zero_without_decay(tmp_path: Path):
    runner = runner_with_hook(tmp_path, 0.0)
    runner.train()
    assert runner.message_hub.get_scalar('train/regularization_loss').current() == 0
