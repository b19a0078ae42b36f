"""Protocols: functions of the features of training and test videos.

A protocol takes :class:`Features` of both and returns values by the name of the measure: one for
each test video (whether it is right) or for each episode, whose mean is the result. A new protocol
is such a function and a row of :data:`PROTOCOLS`; ``cvrl evaluate`` then offers it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from ..encoder.description import architecture_of
from ..encoder.encoder import NUM_CLIPS, Encoder
from ..encoder.recognizers import build_recognizer
from ..io import replace_text
from .clips import VideoClips, batches_of
from .features import (
    Features,
    OnProgress,
    describe_lost,
    extract,
    join_features,
    no_progress,
    tracked,
)
from .labelled import Folds, check_config, config_features, lost_classes, read_split, split
from .linear import ProbeSchedule, sweep, top_hits, train_probes
from .measures import NUM_NEIGHBOURS, knn_classify, nearest_neighbours, recalls, voters

SHARED = (
    'random parts may share persons or recordings, which makes the numbers higher or lower; '
    '--groups keeps them apart'
)
RECALLS = (1, 5, 10, 20, 50)
SHOTS = (1, 5)
LR_FACTORS = (0.25, 0.5, 1, 2, 4)
Values = dict[str, Tensor]


def knn(train: Features, test: Features, k: int | None = None) -> Values:
    """Classify by a weighted vote of the k nearest training videos; see :func:`knn_classify`.

    By default, k is 20, and at most half the number of videos of the smallest class.
    """
    k = k or voters(train.labels)
    predicted = knn_classify(test.vectors, train.vectors, train.labels, k)
    return dict(knn_top1=predicted == test.labels)


def retrieval(train: Features, test: Features) -> Values:
    """Retrieve training videos by test videos: is one of the k nearest of the same class?

    Returns:
        ``R@k`` for k from 1 to 50, at most the number of training videos.
    """
    ks = [k for k in RECALLS if k <= len(train.labels)]
    _, indices = nearest_neighbours(test.vectors, train.vectors, ks[-1])
    return recalls(train.labels[indices], test.labels, ks)


def logistic(train: Features, test: Features) -> Values:
    """Classify by a logistic regression on standardised features.

    L-BFGS with scikit-learn's default l2 penalty fits the classifier to the optimum, so that no
    schedule needs to be tuned. This is suitable for small sets; it is not the paper's protocol.
    """
    labels, queries = train.labels.cpu(), test.vectors.cpu()
    if len(labels.unique()) == 1:  # scikit-learn refuses it
        return dict(top1=test.labels.cpu() == labels[0])
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    probe.fit(train.vectors.cpu().numpy(), labels.numpy())
    return dict(top1=torch.from_numpy(probe.predict(queries.numpy())) == test.labels.cpu())


def linear(
    train: Features,
    test: Features,
    lr: float = 32.0,
    schedule: ProbeSchedule | None = None,
    num_classes: int | None = None,
    l2_normalize: bool = True,
) -> Values:
    """Train a linear classifier on fixed views, with five learning rates (Sec. 4.1, cached).

    Online linear evaluation draws new augmentations in every epoch; this one draws one of the
    views of the training videos. Learning rates from 1/4 to 4 times ``lr`` are compared on a tenth
    of the training videos, and a classifier is trained with the best one on all of them.

    Args:
        train: Features of the training videos.
        test: Features of the test videos; probabilities are averaged over their views.
        lr: The middle learning rate.
        schedule: Schedule of the training.
        num_classes: Number of classes; by default 1 more than the largest label.
        l2_normalize: Whether to normalise the features.

    Returns:
        ``top1``, ``top5``, ``train_top1`` and ``train_top5`` by video; ``lr``, the chosen one, and
        ``held_out_top1_lr…``, by which it was chosen.
    """

    def scaled(feats: Tensor) -> Tensor:
        # in float16, the default eps would be 0
        return F.normalize(feats, dim=-1, eps=1e-4) if l2_normalize else feats

    x, y, schedule = scaled(train.feats), train.labels, schedule or ProbeSchedule()
    num_classes = num_classes or int(max(y.max(), test.labels.max())) + 1
    tried = sweep(x, y, num_classes, [factor * lr for factor in LR_FACTORS], schedule)
    best = next(iter(tried))
    (probe,) = train_probes(x, y, num_classes, [best], schedule)
    found = {f'train_{name}': hits for name, hits in top_hits(probe, x, y).items()}
    found |= top_hits(probe, scaled(test.feats), test.labels)
    found |= {f'held_out_top1_lr{rate:g}': torch.tensor(top1) for rate, top1 in tried.items()}
    return found | dict(lr=torch.tensor(best))


def few_shot(
    train: Features,
    test: Features,
    ways: int = 5,
    episodes: int = 10_000,
) -> Values:
    """Classify by the nearest of a few prototypes (Snell et al., NeurIPS 2017, on frozen features).

    An episode draws ``ways`` classes, 1 or 5 training videos of each, whose mean is the
    prototype, and one test video of each. Papers on few-shot action recognition report the mean
    accuracy and its 95 % interval over 10,000 episodes, of 5 classes each; with fewer classes, an
    episode has all of them.

    Returns:
        The accuracy of each episode by number of shots, such as ``5-way 1-shot``.
    """
    rng, found = Random(0), {}
    gallery, queries = (F.normalize(s.vectors.cpu(), dim=1) for s in (train, test))
    rows = {  # of the training and of the test videos, by class
        label: [torch.nonzero(s.labels == label)[:, 0].tolist() for s in (train, test)]
        for label in test.labels.unique().tolist()
    }
    for k in SHOTS:
        classes = [label for label in sorted(rows) if len(rows[label][0]) >= k]
        if (number := min(ways, len(classes))) < 2:
            continue
        scores = torch.empty(episodes)
        for episode in range(episodes):
            drawn = [rows[label] for label in rng.sample(classes, number)]
            support = torch.tensor([rng.sample(fitted, k) for fitted, _ in drawn])  # (ways, k)
            query = torch.tensor([rng.choice(tested) for _, tested in drawn])
            prototypes = F.normalize(gallery[support].mean(1), dim=1)  # (ways, C)
            nearest = (queries[query] @ prototypes.T).argmax(1)
            scores[episode] = (nearest == torch.arange(number)).float().mean()
        found[f'{number}-way {k}-shot'] = scores
    if not found:
        raise ValueError('Few-shot episodes need two classes with training and test videos.')
    return found


PROTOCOLS: dict[str, Callable[..., Values]] = dict(
    knn=knn, linear=linear, logistic=logistic, few_shot=few_shot, retrieval=retrieval
)
WITH_VIEWS = ('linear',)  # use each clip of a video, and augmented ones of training videos


def _check(name: str) -> None:
    """Refuse a name that is not in :data:`PROTOCOLS`."""
    if name not in PROTOCOLS:
        raise ValueError(f'There is no protocol {name!r}; they are {", ".join(PROTOCOLS)}.')


def across_folds(protocol: str, feats: Features, folds: Folds, **settings: Any) -> Values:
    """Apply a protocol to each pair of indices of training and test videos, and join its values.

    Single numbers, such as a learning rate that was chosen, are left out.
    """
    found = [PROTOCOLS[protocol](feats.take(x), feats.take(y), **settings) for x, y in folds]
    names = [k for k, x in found[0].items() if x.ndim and all(k in values for values in found)]
    return {name: torch.cat([values[name] for values in found]) for name in names}


def means(values: Values) -> dict[str, float]:
    """Return the mean of each measure."""
    return {name: x.double().mean().item() for name, x in values.items()}


def intervals(values: Values) -> dict[str, float]:
    """Return half the width of the 95 % interval of each mean, of several values from 0 to 1.

    Two zeros and two ones are added (Agresti and Coull, 1998): few values may all be equal.
    """
    more = torch.tensor([0.0, 0, 1, 1]).double()
    found = {k: torch.cat([x.double().cpu(), more]) for k, x in values.items() if x.numel() > 1}
    return {name: 1.96 * x.std().item() / len(x) ** 0.5 for name, x in found.items()}


def chance(labels: Tensor) -> float:
    """Return the accuracy of always naming the most frequent class of tested videos, (N,)."""
    return labels.unique(return_counts=True)[1].max().item() / len(labels)


def frozen_accuracy(
    encoder: Encoder, train: Iterable[list[dict]], test: Iterable[list[dict]]
) -> dict[str, float]:
    """Classify test videos by the features of a frozen encoder, averaged over their clips.

    Args:
        encoder: The encoder, in evaluation mode.
        train: Batches of training videos for :func:`extract`.
        test: Batches of test videos.

    Returns:
        ``linear``, the accuracy of a logistic regression, and the means of ``knn`` and
        ``retrieval``, from 0 to 1.
    """
    x, y = (join_features(extract(encoder.features, z, average=True)) for z in (train, test))
    return means(knn(x, y, NUM_NEIGHBOURS) | retrieval(x, y) | dict(linear=logistic(x, y)['top1']))


def evaluate_labels(
    protocol: str,
    encoder: Encoder,
    source: str | Path,
    test: str | Path | None = None,
    groups: str | None = None,
    num_clips: int = NUM_CLIPS,
    num_workers: int = 0,
    on_progress: OnProgress = no_progress,
) -> tuple[Values, list[str]]:
    """Evaluate an encoder on labelled videos.

    Args:
        protocol: Name of the protocol.
        encoder: The encoder, on the device to compute on.
        source: A list, a folder of class folders, or one of a training by ``cvrl pretrain``; see
            :func:`read_labelled`.
        test: Likewise, the test videos; by default, each fifth of the videos is tested once.
        groups: See :func:`split`.
        num_clips: Number of clips per video.
        num_workers: Number of decoding processes.
        on_progress: Called with the number of finished videos and of all videos.

    Returns:
        The values of the protocol, and lines about the videos.

    Raises:
        OSError, ValueError: See :func:`read_split` and :func:`split`.
    """
    _check(protocol)
    train, tested, notes = read_split(source, test)
    videos = [*train, *tested]
    clips = VideoClips([video.path for video in videos], encoder.clip_input, num_clips)
    batches = batches_of(clips, num_workers=num_workers)
    parts = extract(encoder.features, batches, average=protocol not in WITH_VIEWS)
    feats = join_features(tracked(parts, len(videos), on_progress))
    notes += describe_lost({videos[i].name: why for i, why in feats.errors.items()})
    num_train = None if test is None else int((feats.indices < len(train)).sum())
    read = [videos[i] for i in feats.indices]
    notes += lost_classes((video.label for video in videos), (video.label for video in read))
    targets, folds, note = split(read, num_train, groups)
    frequent = chance(targets[torch.cat([x for _, x in folds])])
    notes += [note, f'{frequent:.1%} of the tested videos are of the most frequent class']
    if test is None and groups is None:
        notes.append(SHARED)
    return across_folds(protocol, replace(feats, labels=targets), folds), notes


def evaluate_config(
    protocol: str, cfg: Config, checkpoint: str, out: Path, train_views: int = 2
) -> dict[str, Any]:
    """Evaluate a checkpoint on the lists of a config. All ranks must call this function.

    The features are averaged over the clips of ``feature_pipeline``. The protocol ``linear`` takes
    the clips of the training pipeline, ``train_views`` of each video, and of the test pipeline; its
    schedule, learning rate and number of classes are the config's.

    Args:
        protocol: Name of the protocol.
        cfg: A config of linear evaluation, with any backbone of MMAction2.
        checkpoint: A file with ``backbone.…`` weights, or ``'random'``.
        out: Folder for the features and the result, ``PROTOCOL.json``.
        train_views: Number of augmented clips per training video.

    Returns:
        The means of the measures by name, ``checkpoint``, and for ``linear``, ``protocol``.

    Raises:
        OSError: The checkpoint or a list is missing, or ``out`` is not writable.
        ValueError: A label is missing or out of range, the training videos have only one class, or
            the checkpoint cannot be used.
    """
    _check(protocol)
    views = protocol in WITH_VIEWS
    head = cfg.model.cls_head
    check_config(cfg, head.num_classes if views else None)
    meta = dict(backbone=architecture_of(cfg.model.backbone.to_dict()))
    encoder = Encoder.of(build_recognizer(cfg, checkpoint).to(get_device()), meta).eval()
    loaders = dict(train=cfg.train_dataloader, test=cfg.test_dataloader)
    settings: dict[str, dict] = dict(knn=dict(k=NUM_NEIGHBOURS))
    result: dict[str, Any] = dict(checkpoint=checkpoint)
    if views:
        loaders['train'].batch_size = max(1, loaders['train'].batch_size // train_views)
        train = config_features(encoder, loaders['train'], out / 'train', train_views)
        test = config_features(encoder, loaders['test'], out / 'test')
        settings['linear'] = dict(
            lr=cfg.optim_wrapper.optimizer.lr,
            schedule=ProbeSchedule.from_config(cfg, len(train.labels)),
            num_classes=head.num_classes,
            l2_normalize=head.get('l2_normalize', True),
        )
        result['protocol'] = (
            f'cached: {train_views} fixed views of each training video, {test.feats.shape[1]} '
            'views of each test video; not the online protocol'
        )
    else:
        for loader in loaders.values():
            loader.dataset.pipeline = cfg.feature_pipeline
        loaders['train'] = ConfigDict({**loaders['test'], 'dataset': loaders['train'].dataset})
        train, test = (
            config_features(encoder, loader, out / f'{name}_mean', average=True)
            for name, loader in loaders.items()
        )
    values = PROTOCOLS[protocol](train, test, **settings.get(protocol, {}))
    result |= means(values) | dict(interval95=intervals(values))
    if is_main_process():
        replace_text(out / f'{protocol}.json', json.dumps(result, indent=2) + '\n')
    return result
