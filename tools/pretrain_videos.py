"""Pre-train an encoder on your own videos; the same as ``cvrl pretrain``."""

import sys

from cvrl_cli import pretrain

if __name__ == '__main__':
    pretrain(sys.argv[1:], 'python tools/pretrain_videos.py')
