"""Pre-training on a user's own videos with one command.

In: files, folders or lists of videos. Out: a config, a trained encoder, the features of all videos
and a report. Start with ``pipeline.py``, which calls the other modules in the order of the work.
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

    Called again with the same folder it continues where it stopped. It needs ``av``,
    ``matplotlib``, ``pillow``, ``rich`` and ``scikit-learn``.

    Args:
        videos: Videos, folders that are searched recursively, and lists; none to continue.
        out: Folder of everything that is written: ``config.py``, ``encoder.safetensors``,
            ``features.npz``, ``index.html``, ``report.md``, ``curves.png`` and the training.
        options: Fields of :class:`.settings.Options`, all of which have a default.

    Returns:
        The folder.

    Raises:
        ImportError: one of these packages is missing.
        OSError: a source does not exist.
        ValueError: no video can be used, there are too few, an option is out of its range, or
            the folder holds a training of other videos or options.
    """
    from .pipeline import run  # with packages that are needed for nothing else

    sources = [videos] if isinstance(videos, (str, Path)) else list(videos)
    return run(sources, out, **options)
