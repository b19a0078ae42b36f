"""Pre-training on a user's own videos with one command.

In: files, folders or lists of videos. Out: a config, a trained encoder, the features of all videos
and a report. Read ``train.py`` first; it calls the other modules in order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def pretrain(
    videos: Sequence[str | Path] | str | Path = (), out: str | Path = '', **options: Any
) -> Path:
    """Pre-train an encoder on videos and write it, the features of all videos and a report.

    >>> out = cvrl_mm.pretrain('my_videos', 'work_dirs/mine', hours=2)
    >>> encoder = cvrl_mm.load_encoder(out)

    A second call with the same folder continues the training where it stopped.

    Args:
        videos: Videos, folders that are searched recursively, and lists. Leave it empty to
            continue a training.
        out: Output folder. It will contain ``config.py``, ``encoder.safetensors``,
            ``features.npz``, ``index.html``, ``report.md``, ``curves.png`` and the checkpoints.
        options: Fields of :class:`.plan.Options`, all of which have a default.

    Returns:
        The output folder.

    Raises:
        OSError: A source does not exist.
        ValueError: No video can be used, there are too few, an option is out of its range, or
            the folder contains a training with other videos or options.
    """
    from .train import run  # not needed by `import cvrl_mm`

    sources = [videos] if isinstance(videos, (str, Path)) else list(videos)
    return run(sources, out, **options)
