"""The same as ``cvrl test``, for users of MMAction2."""

import sys
from pathlib import Path

if __name__ == '__main__':
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a clone's script uses the clone
    from cvrl_cli import main

    main(['test', *sys.argv[1:]])
