"""Test with any config: MMAction2's own script, with cvrl_mm registered.

Example:
    python tools/test.py CONFIG CHECKPOINT
"""

from cvrl_mm.host_tools import run_host_tool

if __name__ == '__main__':
    run_host_tool('test.py')
