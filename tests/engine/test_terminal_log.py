import logging
from pathlib import Path
from uuid import uuid4

import pytest
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from cvrl_mm.engine.terminal_log import shorten, shorten_all

LONG = '\n'.join(f'line {i}' for i in range(5))


def logger(path: Path) -> MMLogger:
    return MMLogger(uuid4().hex, log_file=str(path), log_level='INFO')


def test_long_messages_are_in_the_file_alone(tmp_path: Path, capfd):
    log = shorten(shorten(logger(tmp_path / 'a.log')))
    log.info('short')
    log.info(LONG)
    log.info(LONG)
    log.warning('WARNED\n' + LONG)
    log.warning('"FileClient" will be deprecated in future.')
    printed = ''.join(capfd.readouterr())
    assert 'short' in printed and printed.count('line 4') == 1  # of the warning
    assert printed.count(f'are in {tmp_path / "a.log"}') == 1
    assert 'deprecated' not in printed
    assert (tmp_path / 'a.log').read_text().count('line 4') == 3


def test_only_severe_messages(tmp_path: Path, capfd):
    log = shorten(logger(tmp_path / 'a.log'), logging.WARNING)
    log.info('short')
    log.warning('severe')
    printed = ''.join(capfd.readouterr())
    assert 'severe' in printed and 'short' not in printed
    assert 'short' in (tmp_path / 'a.log').read_text()


def test_other_ranks_still_print_errors_only(tmp_path: Path, capfd):
    log = logger(tmp_path / 'a.log')
    terminal = next(h for h in log.handlers if type(h) is logging.StreamHandler)
    terminal.setLevel(logging.ERROR)  # as mmengine does on ranks above 0
    shorten(log, logging.WARNING).warning('once per rank')
    log.error('failed')
    printed = ''.join(capfd.readouterr())
    assert 'failed' in printed and 'once per rank' not in printed


def test_without_a_file_everything_is_printed(capfd):
    log = shorten(MMLogger(uuid4().hex, log_level='INFO'))
    log.info(LONG)
    assert 'line 4' in ''.join(capfd.readouterr())


def test_all_runners_of_a_process(monkeypatch: pytest.MonkeyPatch):
    built = MMLogger(uuid4().hex, log_level='INFO')
    monkeypatch.setattr(Runner, 'build_logger', lambda runner, *args, **kwargs: built)
    shorten_all()
    assert Runner.build_logger(None) is built
    assert any(handler.filters for handler in built.handlers)
