"""Pre-training and fine-tuning on a user's own videos with one command each.

In: files, folders or lists of videos. Out: a config, a trained encoder or classifier, and a report.
Read ``train.py`` first; it calls the other modules in order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..options import NONE
from .predict import load_classifier

__all__ = ['finetune', 'load_classifier', 'pretrain']


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

    return run(videos, out, **options)


def finetune(
    encoder: str | Path | None = None,
    videos: Sequence[str | Path] | str | Path = (),
    out: str | Path = '',
    val: str | Path | None = None,
    config_only: bool = False,
    **options: Any,
) -> Path:
    """Train a classifier of labelled videos, from a trained encoder.

    >>> out = cvrl_mm.finetune('work_dirs/mine', 'my_classes', 'work_dirs/classifier')
    >>> cvrl_mm.load_classifier(out)('video.mp4')    # {'wave': 0.93, 'throw': 0.04, …}

    A second call with the same folder continues the training where it stopped.

    Args:
        encoder: As for :func:`cvrl_mm.load_encoder`, or ``'random'`` for random weights. Leave
            it and ``videos`` empty to continue.
        videos: Folders with one folder per class, or lists with lines ``path label``, in which the
            label is a name or a number.
        out: Output folder. It will contain ``config.py``, ``classifier.pth``, ``index.html``,
            ``confusion.png``, ``report.md`` and the checkpoints.
        val: Held-out videos, or ``'none'`` to train on all; by default 30 % of the videos of each
            class.
        config_only: Write the config, and do not train.
        options: Fields of :class:`.classifier.FinetuneOptions`.

    Returns:
        The output folder.

    Raises:
        OSError: A source does not exist.
        ValueError: There are fewer than two classes, a class has too few videos, a held-out label
            or an option is unknown, or the folder contains another training.
    """
    from .classifier import FineTuning  # not needed by `import cvrl_mm`
    from .train import run

    init = None if encoder is None else str(encoder)
    held = val if val in (None, NONE) else str(Path(val).absolute())
    return run(videos, out, FineTuning(), config_only, init=init, val=held, **options)
