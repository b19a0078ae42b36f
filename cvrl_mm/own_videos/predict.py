"""A fine-tuned classifier: class probabilities of videos, and of windows of long videos.

>>> classifier = cvrl_mm.load_classifier('work_dirs/classifier')
>>> classifier('video.mp4')    # {'wave': 0.93, 'throw': 0.04, …}
"""

import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.device import get_device
from torch import Tensor, nn

from ..datasets.lists import gather_videos
from ..datasets.reader import UnreadableVideoError
from ..encoder.description import ClipInput, build_backbone, read_config_text
from ..encoder.encoder import NUM_CLIPS, Encoder
from ..encoder.files import (
    CLASSIFIER,
    NAMES,
    extract_backbone,
    load_weights,
    locate_weights,
    save_weights,
)
from ..evaluation.clips import VideoClips, batches_of
from ..evaluation.features import extract, finite, over_time
from ..text import printable

HEADS = ('LinearProbeHead', 'I3DHead')  # a linear layer fc_cls on pooled features
SHOWN, SHOWN_CLASSES = 3, 8  # printed, in a figure
WEIGHT, BIAS = 'cls_head.fc_cls.weight', 'cls_head.fc_cls.bias'


class Classifier:
    """Compute class probabilities of videos.

    Args:
        encoder: The fine-tuned or frozen encoder.
        layer: Linear layer from features to class scores.
        classes: Names of the K classes.
        l2_normalize: Whether the layer expects features of unit length.

    Attributes:
        network: From clips, (N, 3, T, H, W), to probabilities, (N, K), with gradients.
    """

    def __init__(
        self, encoder: Encoder, layer: nn.Linear, classes: Sequence[str], l2_normalize: bool
    ) -> None:
        self.encoder, self.classes = encoder, list(classes)
        self.head = nn.Sequential(*[_UnitLength()] * l2_normalize, layer, nn.Softmax(1))
        self.network = nn.Sequential(encoder, self.head).eval()

    def to(self, device: str | torch.device) -> 'Classifier':
        """Move the weights to a device."""
        self.network.to(device)
        return self

    def __call__(
        self,
        video: str | Path | np.ndarray | Tensor,
        num_clips: int = NUM_CLIPS,
        fps: float | None = None,
    ) -> dict[str, float]:
        """Classify a video.

        Args:
            video: Path of a file, or RGB frames, (T, H, W, 3) uint8.
            num_clips: Number of evenly spaced clips, over which probabilities are averaged.
            fps: Frames per second of an array; see :meth:`Encoder.transform`.

        Returns:
            The probability of each class by its name, the largest first.

        Raises:
            OSError, UnreadableVideoError, ValueError: See :meth:`Encoder.transform`.
        """
        probs = self.probabilities(self.encoder.transform(video, num_clips, fps)).mean(0)
        return self.named(probs)

    @torch.no_grad()
    def probabilities(self, clips: Tensor) -> Tensor:
        """Classify clips, (N, 3, T, H, W); return probabilities, (N, K) float32 on the CPU.

        Raises:
            ValueError: See :meth:`Encoder.features`; or the features are not finite.
        """
        return finite(self.head(self.encoder.features(clips)), 'a clip').float().cpu()

    def named(self, probs: Tensor) -> dict[str, float]:
        """Return probabilities, (K,), by class, the largest first."""
        order = probs.argsort(descending=True, stable=True).tolist()
        return {self.classes[i]: probs[i].item() for i in order}


class _UnitLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=1)


def save_classifier(checkpoint: Path, out: Path) -> None:
    """Write the weights, class names, clips and head of a checkpoint, without the optimizer."""
    loaded, described = load_weights(checkpoint), extract_backbone(checkpoint)
    names = dict(dataset_meta=dict(classes=list(loaded['meta']['dataset_meta']['classes'])))
    names['cls_head'] = _head_of(loaded['meta'])
    save_weights(dict(state_dict=loaded['state_dict'], meta=described['meta'] | names), out)


def load_classifier(path: str | Path) -> Classifier:
    """Load a classifier that ``cvrl finetune`` has trained.

    Args:
        path: Output folder of the training, its ``classifier.pth``, also at an address, or one of
            its checkpoints.

    Returns:
        The classifier on the CPU; ``classifier(video)`` gives the probabilities by class.

    Raises:
        OSError: The file does not exist, or the download failed.
        ValueError: The file contains more than weights, is damaged, or holds no classifier with
            class names, a described backbone and a linear head.
    """
    path = locate_weights(path) if '://' in str(path) else Path(path)
    if path.is_dir():
        if any((path / name).is_file() for name in NAMES) and not (path / CLASSIFIER).is_file():
            raise FileNotFoundError(
                f'{path} holds an encoder, and no classifier. Train one with videos of your '
                f'classes: cvrl finetune {path} CLASSES --out CLASSIFIER'
            )
        path = path / CLASSIFIER
    loaded, described = load_weights(path), extract_backbone(path)
    state, meta = loaded['state_dict'], loaded['meta']
    try:
        names = meta['dataset_meta']
        classes = [str(name) for name in names.get('classes', names.get('CLASSES'))]
        head = _head_of(meta)
        if head['type'] not in HEADS or state[WEIGHT].shape[0] != len(classes):
            raise ValueError(f'a head of type {head["type"]:.80} for {len(classes)} classes')
        layer = nn.Linear(*reversed(state[WEIGHT].shape))
        layer.load_state_dict(dict(weight=state[WEIGHT], bias=state[BIAS]))
        backbone = described['meta']['backbone']
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f'{path} holds no classifier of cvrl finetune, with class names and a linear head '
            f'({error!r:.200}).'
        ) from error
    clip_input = ClipInput(**described['meta']['input'])
    network = build_backbone(backbone, described, str(path))
    is_unit = head['type'] == 'LinearProbeHead' and head.get('l2_normalize', True)
    encoder = Encoder(network, clip_input, described['meta']).eval()
    return Classifier(encoder, layer, classes, bool(is_unit))


def _head_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the head, of a classifier's file or of a checkpoint."""
    return meta.get('cls_head') or read_config_text(meta['cfg'])['model']['cls_head']


def is_classifier(path: str | Path) -> bool:
    """Return whether a folder or file, of any name, holds a classifier of ``cvrl finetune``."""
    try:
        load_classifier(path)
    except (OSError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Prediction:
    """The classes of a video, or of its windows.

    Attributes:
        video: Path of the video.
        probs: Probabilities, (T, K); T is 1 without windows.
        times: Start and end of each window in seconds, (T, 2); None without windows.
        error: Why the video cannot be read; ``probs`` is then empty.
    """

    video: str
    probs: Tensor
    times: np.ndarray | None = None
    error: str | None = None


def predict(
    classifier: Classifier,
    videos: Sequence[str],
    every_seconds: float | None = None,
    num_workers: int = 0,
) -> Iterator[Prediction]:
    """Classify videos.

    Args:
        classifier: The classifier, on the device to compute on.
        videos: Paths.
        every_seconds: Distance of the windows of a long video, each of one clip. None classifies
            the whole video by 10 clips.
        num_workers: Number of decoding processes; windows are decoded in this process.

    Yields:
        One prediction per video, in order.
    """
    encoder, encode = classifier.encoder, classifier.probabilities
    none = torch.empty(0, len(classifier.classes))
    if every_seconds is not None:
        for video in videos:
            try:
                yield Prediction(video, *over_time(encode, encoder, video, every_seconds))
            except UnreadableVideoError as error:
                yield Prediction(video, none, error=error.reason)
        return
    clips = VideoClips(videos, encoder.clip_input)
    found = extract(encode, batches_of(clips, 1, num_workers), average=True)
    for video, part in zip(videos, found, strict=True):
        if part.errors:
            yield Prediction(video, none, error=part.errors.popitem()[1])
        else:
            yield Prediction(video, part.feats[0])


def plot_over_time(prediction: Prediction, classes: Sequence[str], path: Path) -> None:
    """Draw the probabilities of the most probable classes over time to a picture."""
    from matplotlib.figure import Figure  # not needed by `import cvrl_mm`

    assert prediction.times is not None
    middles = prediction.times.mean(1)
    figure = Figure(figsize=(10, 4), layout='constrained')
    axes = figure.subplots()
    shown = prediction.probs.amax(0).argsort(descending=True)[:SHOWN_CLASSES].tolist()
    for i in sorted(shown):
        axes.plot(middles, 100 * prediction.probs[:, i], marker='.', label=plain(classes[i]))
    axes.set(xlabel='time (s)', ylabel='probability (%)', ylim=(0, 105))
    axes.set_title(plain(Path(prediction.video).name))
    figure.legend(loc='outside right upper')
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def plain(label: str) -> str:
    """Return a printable label of a figure, in which matplotlib finds no formula."""
    return printable(label).replace('$', r'\$')


def print_predictions(
    path: str | Path, videos: Sequence[str], every_seconds: float | None = None, form: str = 'text'
) -> None:
    """Print the classes of videos, and plot the classes of windows of long videos.

    Args:
        path: Folder of the classifier; pictures are written to its subfolder ``predictions``.
        videos: Videos, folders and lists.
        every_seconds: See :func:`predict`.
        form: ``'text'``, ``'json'`` or ``'csv'``; JSON and CSV have all classes.

    Raises:
        OSError: The classifier or a source does not exist.
        ValueError: This is no classifier, or, after all others, that a video could not be read.
    """
    classifier = load_classifier(path).to(get_device())
    paths, listed = gather_videos(videos), []
    rows, spans = csv.writer(sys.stdout), ['start', 'end'] if every_seconds else []
    if form == 'csv':
        rows.writerow(['video', *spans, *map(printable, classifier.classes)])
    lost = 0
    for found in predict(classifier, paths, every_seconds):
        name = printable(found.video)
        if found.error is not None:
            lost += 1
            print(f'{name} cannot be classified: {found.error}', file=sys.stderr)
            continue
        for i, probs in enumerate(found.probs):
            times = [] if found.times is None else found.times[i].tolist()
            classes = classifier.named(probs)
            if form == 'csv':
                rows.writerow([name, *times, *probs.tolist()])
            elif form == 'json':
                span = dict(zip(spans, times, strict=True))
                listed.append(dict(video=found.video, **span, classes=classes))
            else:
                at = ' {:.2f}-{:.2f} s'.format(*times) if times else ''
                best = ', '.join(f'{k} {100 * v:.1f} %' for k, v in [*classes.items()][:SHOWN])
                print(f'{name}{at}: {printable(best)}', flush=True)
        if found.times is not None:
            # A hash of the path, so that videos of other folders and calls keep their pictures
            digest = sha256(os.fsencode(os.path.abspath(found.video))).hexdigest()[:8]
            stem = Path(found.video).stem[:50]  # file systems have a limit of 255 bytes
            picture = Path(path, 'predictions', f'{stem}_{digest}_every_{every_seconds:g}.png')
            plot_over_time(found, classifier.classes, picture)
            print(f'The classes over time: {printable(picture)}', file=sys.stderr)
    if form == 'json':
        print(json.dumps(listed, indent=2))
    if lost:
        raise ValueError(f'{lost} of {len(paths)} videos could not be classified.')
