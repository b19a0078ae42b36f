"""Messages of other packages that a user can do nothing about are not displayed.

Only those listed here are left out, by their beginnings; all other warnings stay. ``-W error``
still raises all of them, and a training's log file holds all that is logged.
"""

import warnings

# Python warnings that a start of our tools has been seen to display, and who gives them.
WARNINGS = (
    'Fail to import ``MultiScaleDeformableAttention`` from',  # mmcv-lite
    '`TorchScript` support for functional optimizers is deprecated',  # mmengine on torch 2.4
    '`torch.cpu.amp.autocast(args...)` is deprecated',  # torch 2.4's recomputation
    'You are using `torch.load` with `weights_only=False`',  # mmengine on torch 2.4 and 2.5
    'pkg_resources is deprecated as an API',  # mmengine and mim
    'The current default scope "',  # mmaction2, if another package of OpenMMLab came first
)
# Messages of mmengine's logger that say nothing of the user's making.
LOG_BEGINNINGS = (
    '"FileClient" will be deprecated in future.',
    '"HardDiskBackend" is the alias of "LocalBackend"',
    'Distributed training is not used, all SyncBatchNorm',
    'The current default scope "',
    'paramwise_options -- ',  # one line for each parameter without weight decay
)
LOG_ENDS = ('is skipped since its requires_grad=False',)  # one line for each frozen parameter


def is_noise(message: str) -> bool:
    """Whether a message of mmengine's logger is one of those that are not displayed."""
    return message.startswith(LOG_BEGINNINGS) or message.endswith(LOG_ENDS)


def hide_warnings() -> None:
    """Do not display the warnings of ``WARNINGS`` in this process.

    This wraps ``warnings.showwarning``: a filter would not do, as torch sets its own around some
    of these warnings.
    """
    show = warnings.showwarning
    if getattr(show, '__module__', None) == __name__:
        return

    def show_others(message: Warning | str, *args: object, **kwargs: object) -> None:
        if not str(message).startswith(WARNINGS):
            show(message, *args, **kwargs)  # type: ignore[arg-type]

    warnings.showwarning = show_others
