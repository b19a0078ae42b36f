"""Train with any config: MMAction2's own script, with cvrl_mm registered.

Example:
    python tools/train.py configs/cvrl/pretrain_k400.py --work-dir work_dirs/k400
"""

import sys
from pathlib import Path

if __name__ == '__main__':
    if {'-h', '--help'} & set(sys.argv):
        print(__doc__)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a clone's script uses the clone
    from torch.distributed.elastic.multiprocessing.errors import record

    from cvrl_mm.runtime import pass_on_randomness, plain_errors, run_host_tool

    pass_on_randomness()
    with plain_errors(only_own=True):
        record(run_host_tool)('train.py')  # torchrun then says which rank failed and why
