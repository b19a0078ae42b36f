#!/usr/bin/env bash
# Train an evaluation on GPUs and test the result. Started again, it continues where it stopped.
#
#   tools/train_and_test.sh CONFIG RANKS_PER_NODE [key=value to change in the config ...]
#   tools/train_and_test.sh configs/linear/linear_k400.py 8
#
# Environment variables: WORK_DIR, and the ones of dist_train.sh.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
work_dir=${WORK_DIR:-work_dirs/$(basename "$1" .py)}
options=(--work-dir "$work_dir")
if [ $# -gt 2 ]; then
  options+=(--cfg-options "${@:3}")
fi
python -c 'import torch; exit(not torch.cuda.is_available() and
    "train_and_test.sh: PyTorch finds no GPU. Without one, use tools/train.py and tools/test.py.")'
"$tools/dist_train.sh" "$1" "$2" --resume auto "${options[@]}"
"$tools/dist_test.sh" "$1" "$work_dir/$(basename "$(cat "$work_dir/last_checkpoint")")" "$2" "${options[@]}"
