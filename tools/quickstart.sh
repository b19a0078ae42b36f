#!/usr/bin/env bash
# See CVRL work on a machine with only Python 3.10 to 3.12, no GPU needed: tools/quickstart.sh [arguments]
#
# Installs into .venv beside this folder (once), writes a small set of videos, pre-trains on it without
# labels, and leaves a table and pictures in quickstart/. Arguments are those of quickstart.py.
# Which build of torch is installed is for pip's index to say; on Linux PyPI's comes with CUDA, and
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu tools/quickstart.sh
# gets a CPU build, which is a tenth of the size.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/install.sh
enter_environment .venv

if ! python -c 'import av, cvrl_mm, matplotlib, rich, sklearn' 2>/dev/null; then
  extras=lite,quickstart
  if python -c 'import mmcv.ops' 2>/dev/null; then
    extras=quickstart # the compiled mmcv stays; mmcv-lite would overwrite its files
  fi
  PIP_DISABLE_PIP_VERSION_CHECK=1 pip install -c constraints.txt --editable ".[$extras]"
fi
exec python tools/quickstart.py "$@"
