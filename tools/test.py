"""Test a checkpoint with any config, using the script of MMAction2.

Example:
    python tools/test.py CONFIG CHECKPOINT
"""

import sys

from cvrl_mm.command_line import check_config_argument, plain_own_errors
from cvrl_mm.engine.terminal_log import shorten_all
from cvrl_mm.mmaction_scripts import run_host_tool

if __name__ == '__main__':
    if {'-h', '--help'} & set(sys.argv):
        print(__doc__)
    check_config_argument()
    shorten_all()
    with plain_own_errors():
        run_host_tool('test.py')
