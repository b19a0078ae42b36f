#!/usr/bin/env bash
# Test on several ranks, each of which needs a GPU.
#
#   tools/dist_test.sh CONFIG CHECKPOINT RANKS_PER_NODE [arguments of test.py]
#
# Environment: NNODES, NODE_RANK, MASTER_ADDR, PORT.
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
# torchrun's own choice, which it announces in five lines otherwise
[ "$3" = 1 ] || export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
PYTHONPATH="$tools/..${PYTHONPATH:+:$PYTHONPATH}" exec python -m torch.distributed.run \
  --nnodes="${NNODES:-1}" --node_rank="${NODE_RANK:-0}" \
  --master_addr="${MASTER_ADDR:-127.0.0.1}" --master_port="${PORT:-29500}" \
  --nproc_per_node="$3" \
  "$tools/test.py" "$1" "$2" --launcher pytorch "${@:4}"
