#!/usr/bin/env bash
# Install what the tests need, compiled mmcv included, and run them: tools/test.sh [pytest's arguments]
#
# Two processes share the tests; "-n 0" runs them in one.
#
# Works in .venv beside this folder; the first run compiles mmcv (about 5 minutes on 2 cores), later
# ones find it there or in pip's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/install.sh
enter_environment .venv

export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_DISABLE_PIP_VERSION_CHECK=1
pip install --quiet 'setuptools<81' wheel ninja torch numpy
if ! python -c 'import mmcv.ops' 2>/dev/null; then
  echo 'Installing mmcv with compiled operators'
  pip uninstall --quiet --yes mmcv mmcv-lite
  MMCV_WITH_OPS=1 FORCE_CUDA=0 pip install --quiet --no-build-isolation mmcv
fi
pip install --quiet --editable '.[detection,tests]'
if [ ! -d .venv/mim/mim ]; then
  # In a folder of its own, for the packaging test alone: openmim asks for an old setuptools, and
  # model-index brings a top-level package named tests.
  pip install --quiet --target .venv/mim click colorama model-index requests tabulate
  pip install --quiet --target .venv/mim --no-deps openmim==0.3.9
fi
exec python -m pytest --numprocesses 2 --dist worksteal "$@"
