"""Comparison of the learning rate of a config with its batch size."""

from mmengine.config import Config

from .finding import Finding


def check_learning_rate(config: Config, ranks: int) -> Finding:
    """Check that the learning rate matches the number of videos per step.

    Args:
        config: A training config.
        ranks: Number of processes of the training.
    """
    name = 'learning rate'
    lr = config.optim_wrapper.optimizer.lr
    per_rank = config.train_dataloader.batch_size
    steps = config.optim_wrapper.get('accumulative_counts', 1)
    batch = ranks * per_rank * steps
    accumulated = f' x {steps} accumulated' if steps > 1 else ''
    said = f'{lr:g} with {ranks} x {per_rank}{accumulated} = {batch} videos per step'
    scaling = config.get('auto_scale_lr') or {}
    base = scaling.get('base_batch_size')
    if base is None:
        advice = 'set auto_scale_lr.base_batch_size to the batch size of this learning rate'
        return Finding('note', name, f'{said}; the config does not name its batch size', advice)
    scaled = lr * batch / base
    set_lr = f'optim_wrapper.optimizer.lr={scaled:g}'
    if scaling.get('enable') and steps > 1:
        by_mmengine = lr * ranks * per_rank / base  # Runner.scale_lr
        return Finding(
            'note',
            name,
            f'{said}; auto_scale_lr ignores the accumulation and scales to {by_mmengine:g}',
            f'set auto_scale_lr.enable=False and {set_lr}',
        )
    if base == batch:
        return Finding('ok', name, f'{said}, as the config expects')
    if scaling.get('enable'):
        return Finding('ok', name, f'{said}, for {base} in the config; scaled to {scaled:g}')
    advice = f'set {set_lr}' if steps > 1 else f'train with --auto-scale-lr, or {set_lr}'
    return Finding('note', name, f'{said}, but it is for {base}', advice)
