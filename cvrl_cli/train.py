"""Train with any config: MMAction2's own script, with cvrl_mm registered.

Examples:
    cvrl train configs/cvrl/pretrain_k400.py --work-dir work_dirs/k400
    cvrl train my_config.py --resume
    torchrun --nproc_per_node 8 --no-python cvrl train my_config.py --launcher pytorch
"""

import sys


def run() -> None:
    """Train with the arguments of the command line."""
    if {'-h', '--help'} & {*sys.argv}:
        print(__doc__)
    from torch.distributed.elastic.multiprocessing.errors import record

    from cvrl_mm.runtime import pass_on_randomness, plain_errors, run_host_tool

    pass_on_randomness()
    with plain_errors(only_own=True):
        record(run_host_tool)('train.py')  # torchrun then says which rank failed and why
