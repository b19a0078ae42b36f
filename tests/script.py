"""Run a command or a script of the tools folder within the test's process."""

import runpy
from pathlib import Path

import pytest

import cvrl_cli

TOOLS = Path(__file__).parents[1] / 'tools'


def run_cvrl(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Run ``cvrl`` with these arguments."""
    monkeypatch.setattr('sys.argv', ['cvrl', *map(str, arguments)])
    cvrl_cli.main()


def run_script(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> None:
    """Run ``tools/name`` as the main program with these arguments."""
    monkeypatch.setattr('sys.argv', [name, *map(str, arguments)])
    runpy.run_path(str(TOOLS / name), run_name='__main__')
