#!/usr/bin/env bash
# Submit a training run to Slurm, one task per GPU. It survives preemption and time limits.
#
#   tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [arguments of train.py]
#   GPUS=16 tools/slurm_train.sh gpu cvrl configs/cvrl/pretrain_k400.py work_dirs/k400 --auto-scale-lr
#
# Environment: GPUS (8), GPUS_PER_NODE (8), CPUS_PER_TASK (12), GRACE_SECONDS (300), SBATCH_ARGS;
# THEN_TEST=1 tests the last checkpoint after the training, as train_and_test.sh does.
#
# The config, the options, the lists and the checkpoints to start from are checked before.
# GRACE_SECONDS before the time limit, and when it is preempted, the run writes a checkpoint, ends
# with exit code 75 and is put back into the queue. Started again, it resumes by itself. The log is
# WORK_DIR/slurm-JOB.out.
set -euo pipefail
if [ $# -lt 4 ]; then
  sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tools=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
gpus=${GPUS:-8}
per_node=${GPUS_PER_NODE:-8}
for setting in "GPUS=$gpus" "GPUS_PER_NODE=$per_node" "CPUS_PER_TASK=${CPUS_PER_TASK:-12}" \
  "GRACE_SECONDS=${GRACE_SECONDS:-300}"; do
  if ! [[ ${setting#*=} =~ ^[1-9][0-9]*$ ]]; then
    echo "slurm_train.sh: ${setting%%=*} must be a positive integer, got '${setting#*=}'." >&2
    exit 2
  fi
done
if [ "$per_node" -gt "$gpus" ]; then per_node=$gpus; fi
export PYTHONPATH="$tools/..${PYTHONPATH:+:$PYTHONPATH}"
# As in dist_train.sh
export TORCHINDUCTOR_COMPILE_THREADS="${TORCHINDUCTOR_COMPILE_THREADS:-4}"
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
python -c 'import sys; from cvrl_mm.runtime import check_run; sys.argv[0] = "slurm_train.sh"; check_run(sys.argv[1:])' \
  "$3" "${@:5}"
mkdir -p "$4"
options=() taking=
for argument in "${@:5}"; do # those of the config, for the test
  case $argument in --cfg-options*) taking=1 ;; -*) taking= ;; esac
  if [ -n "$taking" ]; then options+=("$argument"); fi
done
folder=$(printf %q "$4")
test=$(printf '%q ' --work-dir "$4" --launcher slurm ${options[@]+"${options[@]}"})
tester=$(printf '%q ' python -u "$tools/test.py" "$3")
train=$(printf '%q ' python -u "$tools/train.py" "$3" --work-dir "$4" --launcher slurm "${@:5}")
# shellcheck disable=SC2086  # SBATCH_ARGS holds several words
exec sbatch \
  --partition="$1" --job-name="$2" --gres="gpu:$per_node" \
  --ntasks="$gpus" --ntasks-per-node="$per_node" --cpus-per-task="${CPUS_PER_TASK:-12}" \
  --requeue --signal="USR1@${GRACE_SECONDS:-300}" \
  --output="$4/slurm-%j.out" --open-mode=append ${SBATCH_ARGS:-} <<JOB
#!/usr/bin/env bash
told=
trap told=1 TERM  # the tasks of the job get this signal as well and write a checkpoint
srun --cpus-per-task="${CPUS_PER_TASK:-12}" --kill-on-bad-exit=1 $train &
task=\$!
wait "\$task"; code=\$?
while kill -0 "\$task" 2>/dev/null; do wait "\$task"; code=\$?; done  # a signal ends a wait
if [ "\$code" = 0 ] && [ -n "${THEN_TEST:-}" ]; then
  srun --cpus-per-task="${CPUS_PER_TASK:-12}" --kill-on-bad-exit=1 \
    $tester $folder/"\$(basename "\$(cat $folder/last_checkpoint)")" $test
  code=\$?
fi
# After SIGTERM, Slurm itself puts a preempted job back, unless it cancels such jobs, and scancel ends it
if [ "\$code" = 75 ] && { [ -z "\$told" ] ||
  scontrol show partition "\$SLURM_JOB_PARTITION" | grep -q PreemptMode=CANCEL; }; then
  scontrol requeue "\$SLURM_JOB_ID"
fi
exit "\$code"
JOB
