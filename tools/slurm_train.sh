#!/usr/bin/env bash
# Train as a Slurm job, one task a GPU.
#
#   tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [arguments of train.py]
#   GPUS=16 tools/slurm_train.sh gpu cvrl configs/cvrl/pretrain_k400.py work_dirs/k400
#
# Environment: GPUS (8), GPUS_PER_NODE (8), CPUS_PER_TASK (12), SRUN_ARGS.
set -euo pipefail
if [ $# -lt 4 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(cd "$(dirname "$0")" && pwd)
gpus=${GPUS:-8}
per_node=${GPUS_PER_NODE:-8}
if [ "$per_node" -gt "$gpus" ]; then per_node=$gpus; fi
# shellcheck disable=SC2086  # SRUN_ARGS holds several words
PYTHONPATH="$tools/..${PYTHONPATH:+:$PYTHONPATH}" exec srun \
  --partition="$1" --job-name="$2" --gres="gpu:$per_node" \
  --ntasks="$gpus" --ntasks-per-node="$per_node" --cpus-per-task="${CPUS_PER_TASK:-12}" \
  --kill-on-bad-exit=1 ${SRUN_ARGS:-} \
  python -u "$tools/train.py" "$3" --work-dir "$4" --launcher slurm "${@:5}"
