#!/usr/bin/env bash
# Train on several ranks; without a GPU they run on the CPU.
#
#   tools/dist_train.sh CONFIG RANKS_PER_NODE [arguments of train.py]
#   tools/dist_train.sh configs/cvrl/pretrain_k400.py 8
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=node0 tools/dist_train.sh configs/cvrl/pretrain_k400.py 8
#
# Environment: NNODES, NODE_RANK, MASTER_ADDR, PORT.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH="$tools/..${PYTHONPATH:+:$PYTHONPATH}" exec python -m torch.distributed.run \
  --nnodes="${NNODES:-1}" --node_rank="${NODE_RANK:-0}" \
  --master_addr="${MASTER_ADDR:-127.0.0.1}" --master_port="${PORT:-29500}" \
  --nproc_per_node="$2" \
  "$tools/train.py" "$1" --launcher pytorch "${@:3}"
