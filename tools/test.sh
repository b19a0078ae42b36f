#!/usr/bin/env bash
# Install what the tests need and run them: tools/test.sh [--oldest] [pytest's arguments]
#
# Works in .venv in this folder, with the newest tested Python of this machine and the versions of
# constraints.txt. Nothing is compiled. Two processes share the tests; "-n 0" runs them in one.
#
# --oldest: only the core, with the oldest supported versions (Python 3.10 and
# constraints-oldest.txt), in .venv-oldest.
set -euo pipefail
CDPATH='' cd -- "$(dirname "$0")/.."
source tools/install.sh

if [ "${1-}" = --oldest ]; then
  shift
  enter_environment .venv-oldest 3.10
  install_once constraints-oldest.txt --quiet --editable '.[lite,tests]'
  exec python -m pytest --numprocesses 2 --dist worksteal \
    tests/{models,datasets,augmentation,engine,evaluation} tests/test_{compat,resume}.py "$@"
fi

# shellcheck disable=SC2086
enter_environment .venv $PYTHONS
install_once constraints.txt --quiet --editable '.[lite,detection,tests]'
exec python -m pytest --numprocesses 2 --dist worksteal "$@"
