"""Do not display messages of other packages on which a user cannot act.

Only messages that begin or end with one of the texts below are affected. ``-W error`` still raises
all warnings, and the log file of a training contains all messages.
"""

import warnings

# Beginnings of Python warnings that occur when our tools start, and the packages that raise them.
WARNINGS = (
    'Fail to import ``MultiScaleDeformableAttention`` from',  # mmcv-lite
    '`TorchScript` support for functional optimizers is deprecated',  # mmengine on torch 2.4
    '`torch.cpu.amp.autocast(args...)` is deprecated',  # torch 2.4's recomputation
    'You are using `torch.load` with `weights_only=False`',  # mmengine on torch 2.4 and 2.5
    'pkg_resources is deprecated as an API',  # mmengine and mim
    'Multi-processing start method `fork` is different from',  # mmengine, of its own setting
    'Setting OMP_NUM_THREADS environment variable',  # mmengine, with several ranks
    'Setting MKL_NUM_THREADS environment variable',
    '`broadcast_buffers` is deprecated',  # mmengine on torch 2.15, with several ranks
    'The current default scope "',  # mmaction2, if another package of OpenMMLab came first
)
# Beginnings and endings of messages of mmengine's logger
LOG_BEGINNINGS = (
    '"FileClient" will be deprecated in future.',
    '"HardDiskBackend" is the alias of "LocalBackend"',
    'Advance dataloader ',  # SampleSeedHook skips these batches without loading them
    'Distributed training is not used, all SyncBatchNorm',
    'The current default scope "',
    'paramwise_options -- ',  # one line for each parameter without weight decay
)
LOG_ENDS = ('is skipped since its requires_grad=False',)  # one line for each frozen parameter


def is_noise(message: str) -> bool:
    """Return whether a message of mmengine's logger is not displayed."""
    return message.startswith(LOG_BEGINNINGS) or message.endswith(LOG_ENDS)


def hide_warnings() -> None:
    """Do not display the warnings in ``WARNINGS`` in this process.

    This wraps ``warnings.showwarning``. A filter does not suffice, because torch replaces the
    filters around some of these warnings.
    """
    show = warnings.showwarning
    if getattr(show, '__module__', None) == __name__:
        return

    def show_others(message: Warning | str, *args: object, **kwargs: object) -> None:
        if not str(message).startswith(WARNINGS):
            show(message, *args, **kwargs)  # type: ignore[arg-type]

    warnings.showwarning = show_others
