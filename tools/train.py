"""Train with any config: MMAction2's own script, with cvrl_mm registered.

Example:
    python tools/train.py configs/cvrl/pretrain_k400.py --work-dir work_dirs/k400
"""

import sys

from torch.distributed.elastic.multiprocessing.errors import record

from cvrl_mm.command_line import check_config_argument, pass_on_randomness, plain_own_errors
from cvrl_mm.engine.terminal_log import shorten_all
from cvrl_mm.mmaction_scripts import run_host_tool

if __name__ == '__main__':
    if {'-h', '--help'} & set(sys.argv):
        print(__doc__)
    check_config_argument()
    pass_on_randomness()
    shorten_all()
    with plain_own_errors():
        record(run_host_tool)('train.py')  # torchrun then says which rank failed and why
