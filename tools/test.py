"""Test a checkpoint with any config, using the script of MMAction2.

Example:
    python tools/test.py CONFIG CHECKPOINT
"""

import sys
from pathlib import Path

if __name__ == '__main__':
    if {'-h', '--help'} & set(sys.argv):
        print(__doc__)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a clone's script uses the clone
    from cvrl_mm.runtime import plain_errors, run_host_tool

    with plain_errors(only_own=True):
        run_host_tool('test.py')
