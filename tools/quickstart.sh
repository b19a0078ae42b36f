#!/usr/bin/env bash
# See CVRL work on a machine with Python 3.10 to 3.13, no GPU needed: tools/quickstart.sh [arguments]
#
# Installs into .venv beside this folder (once), writes a small set of videos, pre-trains on it without
# labels, and leaves a table and a plot in quickstart/. Arguments are passed to quickstart.py.
# Which build of torch is installed is for pip's index to say; on Linux PyPI's comes with CUDA, and
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu tools/quickstart.sh
# gets a CPU build, which is a tenth of the size.
set -euo pipefail
CDPATH='' cd -- "$(dirname "$0")/.."
source tools/install.sh
# shellcheck disable=SC2086
enter_environment .venv $PYTHONS
install_once constraints.txt --editable '.[lite]'
exec python tools/quickstart.py "$@"
