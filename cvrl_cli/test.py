"""Test a checkpoint with any config: MMAction2's own script, with cvrl_mm registered.

Example:
    cvrl test CONFIG CHECKPOINT
"""

import sys


def run() -> None:
    """Test with the arguments of the command line."""
    if {'-h', '--help'} & {*sys.argv}:
        print(__doc__)
    from cvrl_mm.runtime import plain_errors, run_host_tool

    with plain_errors(only_own=True):
        run_host_tool('test.py')
