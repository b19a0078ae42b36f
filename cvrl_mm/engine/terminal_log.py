"""Shorten the output of a training on the terminal; the log file contains all messages."""

import logging
from pathlib import Path

from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..compat import is_noise

MAX_LINES = 3


class ShortMessages(logging.Filter):
    """Remove long tables and the messages of :mod:`cvrl_mm.quiet`.

    The environment, the config and the list of hooks have 450 to 600 lines. They are replaced by
    one line that names the log file.

    Args:
        log_file: Log file of the run, or None if there is none.
    """

    def __init__(self, log_file: str | None) -> None:
        super().__init__()
        self.log_file = log_file
        self.told = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is printed."""
        message = record.getMessage()
        if is_noise(message):
            return False
        is_long = len(message.strip().splitlines()) > MAX_LINES
        if record.levelno >= logging.WARNING or not is_long or self.log_file is None:
            return True
        if not self.told:
            self.told = True
            print(f'Environment, config and hooks are in {self.log_file}', flush=True)
        return False


def shorten(logger: MMLogger, level: int = logging.NOTSET) -> MMLogger:
    """Shorten the output of a logger on the terminal.

    Args:
        logger: Logger of a runner.
        level: Minimal level of the printed messages.
    """
    files = [h.baseFilename for h in logger.handlers if isinstance(h, logging.FileHandler)]
    log_file = str(Path(files[0])) if files else None
    for handler in logger.handlers:
        if type(handler) is logging.StreamHandler:
            handler.setLevel(max(level, handler.level))  # mmengine: only errors on ranks above 0
            if not any(isinstance(f, ShortMessages) for f in handler.filters):
                handler.addFilter(ShortMessages(log_file))
    return logger


def shorten_all() -> None:
    """Shorten what the runners of this process print."""
    build = Runner.build_logger

    def build_short(runner: Runner, *args: object, **kwargs: object) -> MMLogger:
        return shorten(build(runner, *args, **kwargs))

    Runner.build_logger = build_short


def print_warnings_only() -> None:
    """Print only warnings of mmengine's logger, in a program without a runner."""
    shorten(MMLogger.get_current_instance(), logging.WARNING)
