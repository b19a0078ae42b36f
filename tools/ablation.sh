#!/usr/bin/env bash
# Pre-train, then evaluate linearly on Kinetics-400: one row of the paper's ablations. Started
# again, it continues where it stopped.
#
#   tools/ablation.sh CONFIG RANKS_PER_NODE [key=value for the linear evaluation ...]
#   tools/ablation.sh configs/ablations/interval_uniform.py 8
#
# Environment variables: as for dist_train.sh.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
work_dir=work_dirs/$(basename "$1" .py)
"$tools/dist_train.sh" "$1" "$2" --resume auto --work-dir "$work_dir"
WORK_DIR=$work_dir/linear "$tools/train_and_test.sh" \
  "$tools/../configs/linear/linear_k400.py" "$2" \
  model.backbone.init_cfg.checkpoint="$work_dir/$(basename "$(cat "$work_dir/last_checkpoint")")" "${@:3}"
