#!/usr/bin/env bash
# Train on several ranks, one per GPU.
#
#   tools/dist_train.sh CONFIG RANKS_PER_NODE [arguments of train.py]
#   tools/dist_train.sh configs/cvrl/pretrain_k400.py 8
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=node0 tools/dist_train.sh \
#       configs/cvrl/pretrain_k400.py 8 --auto-scale-lr
#
# Environment: NNODES, NODE_RANK, MASTER_ADDR, PORT, MAX_RESTARTS (0): how often a job whose rank
# has died goes on by itself from its last checkpoint; it needs --resume without a file.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
if [ "${MAX_RESTARTS:-0}" != 0 ] && ! [[ " ${*:3} " =~ \ --resume([ =]auto)?\ (--|$) ]]; then
  echo 'dist_train.sh: MAX_RESTARTS needs --resume without a file, by which each restart continues.' >&2
  exit 2
fi
tools=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
address=${MASTER_ADDR:-127.0.0.1}
host=$([ "${NODE_RANK:-0}" = 0 ] && echo 1 || echo 0)
# A restarted job must not find the addresses of dead ranks in the store
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
rendezvous=(--rdzv_backend=c10d --rdzv_endpoint="$address:${PORT:-29500}" --rdzv_id=cvrl_mm)
case $address in 127.* | localhost) rendezvous+=(--local_addr=127.0.0.1) ;; esac
# Run each rank on the cores beside its GPU, where torchrun can do so (torch 2.9 and numactl)
if command -v nvidia-smi >/dev/null && command -v numactl >/dev/null &&
  python -m torch.distributed.run --help | grep -e --numa-binding >/dev/null; then
  rendezvous+=(--numa-binding=node)
fi
# Inductor would start up to 32 processes per rank, and fixed segments of memory leave gaps
export TORCHINDUCTOR_COMPILE_THREADS="${TORCHINDUCTOR_COMPILE_THREADS:-4}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
# torchrun's own choice, which it announces in five lines otherwise
[ "$2" = 1 ] || export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
PYTHONPATH="$tools/..${PYTHONPATH:+:$PYTHONPATH}" exec python -m torch.distributed.run \
  --nnodes="${NNODES:-1}" "${rendezvous[@]}" --rdzv_conf="is_host=$host" \
  --max_restarts="${MAX_RESTARTS:-0}" --nproc_per_node="$2" \
  "$tools/train.py" "$1" --launcher pytorch "${@:3}"
