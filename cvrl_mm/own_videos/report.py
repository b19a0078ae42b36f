"""Write the results of a training: encoder, features, curves, report and page."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from rich.console import Console
from scipy.stats import binomtest
from torch import Tensor

from ..convert.description import ClipInput, architecture_of
from ..evaluation.collapse import alignment, effective_rank, uniformity
from ..evaluation.encoder import Encoder, VideoClips, load_encoder
from ..evaluation.features import FeatureStore, build_recognizer, write_features
from ..evaluation.knn import knn_classify, nearest_neighbours
from ..evaluation.linear_probe import linear_probe
from ..io import printable, progress, replacing
from ..visualization.curves import plot_curves, read_curves
from .folder import FEATURES, FEATURES_BEFORE, Lists, read_command
from .page import write_feature_page
from .plan import MIN_TO_HOLD_OUT

TEMPLATE = Path(__file__).with_name('report.template')
NUM_CLIPS = 4  # per video, evenly spaced
BATCH_VIDEOS = 4
BEFORE, AFTER = 'before training', 'after training'
SPLITS = 20
TRAIN_SHARE = 0.7
MAX_NEIGHBOURS = 20
HEADLINE = 'last clip finds its first clip'
SIGNIFICANCE = 0.05


def write_results(folder: Path, cfg: Config, checkpoint: Path, console: Console) -> None:
    """Write all results of a training to its output folder.

    Args:
        folder: Output folder; its subfolder ``training`` contains the checkpoints.
        cfg: Config of the training.
        checkpoint: The last checkpoint.
        console: Console for the progress bars.

    Raises:
        FileNotFoundError: The folder of the videos does not exist.
        ValueError: Too few videos can be read for a report, or features are not finite.
    """
    lists = Lists.read(folder)
    if not lists.root.is_dir():
        raise FileNotFoundError(
            f'The folder of the videos, {lists.root}, does not exist. No report was written. Make '
            f'it available again, or replace its path in {folder / "inputs.json"}; then start the '
            'same command again.'
        )
    model = build_recognizer(cfg)
    meta = dict(backbone=architecture_of(cfg.model.backbone.to_dict()))
    started = Encoder(model.backbone, ClipInput.from_config(cfg), meta).eval()
    trained = load_encoder(checkpoint, cfg)
    trained.meta.pop('cfg', None)  # it is beside the encoder, and has the user's paths
    trained.save(folder / 'encoder.safetensors')
    store = FeatureStore(
        checkpoint.with_suffix('.features'), dict(clips=trained.clip_input.to_dict())
    )
    with progress('Encoding all videos', console) as on_progress:
        feats, names, failed = encode(
            {BEFORE: started, AFTER: trained},
            lists,
            store,
            cfg.train_dataloader.num_workers,
            on_progress,
        )
    write_features(folder / FEATURES_BEFORE, names, feats[BEFORE].mean(1))
    write_features(folder / FEATURES, names, feats[AFTER].mean(1))
    unseen, labels = lists.held_out(names), lists.labels_of(names)
    plot_curves(
        {'training': read_curves(cfg.work_dir)}, folder / 'curves.png', _panels(bool(unseen))
    )
    console.print('Measuring and drawing …')
    measures = {when: measure(x, unseen, labels) for when, x in feats.items()}
    table = _table(measures)
    headline = verdict(measures[BEFORE][0], measures[AFTER][0])
    init = read_command(folder)['options']['init'] or 'random weights'
    notes = _notes(cfg, headline, init, len(names), len(unseen), failed)
    mean = feats[AFTER].mean(1)
    page = folder / 'index.html'
    write_feature_page(page, notes, table, lists.root, names, mean, unseen, labels, lists.classes)
    numbers = {
        when: [{k: v for k, v in asdict(m).items() if k != 'hits'} for m in found]
        for when, found in measures.items()
    }
    (folder / 'report.json').write_text(json.dumps(numbers, indent=2) + '\n', encoding='utf-8')
    with replacing(folder / 'report.md') as part:  # a report marks a finished training
        part.write_text(_report(notes, table), encoding='utf-8')
    store.remove()
    console.print(headline, markup=False)
    if failed:
        console.print(notes[-1], markup=False)


def encode(
    encoders: dict[str, Encoder],
    lists: Lists,
    store: FeatureStore,
    num_workers: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Tensor], list[str], dict[str, str]]:
    """Compute the features of all videos with several encoders; each video is decoded once.

    Args:
        encoders: Encoders by name; all take the same clips.
        lists: The videos.
        store: Keeps the features, so that an interrupted computation can continue.
        num_workers: Number of decoding processes.
        on_progress: Called with the number of finished videos and the number of all videos.

    Returns:
        Three values: features by name of the encoder, (V, 4, C) float32 on the CPU; the names of
        the V videos that could be read; and the unreadable videos, as ``{name: reason}``.

    Raises:
        ValueError: Half of the videos or more, or all held-out videos, cannot be read: a report of
            the others would look like one of a smaller folder. Or features are not finite.
    """
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    for encoder in encoders.values():
        encoder.to(device)

    def encode_clips(clips: Tensor) -> dict[str, Tensor]:  # (N, V, C, T, H, W)
        return {
            name: encoder.features(clips.flatten(0, 1)).unflatten(0, clips.shape[:2])
            for name, encoder in encoders.items()
        }

    clip_input = next(iter(encoders.values())).clip_input
    paths = [str(lists.root / name) for name in lists.names]
    videos = VideoClips(paths, clip_input, NUM_CLIPS)
    store.fill(videos, encode_clips, BATCH_VIDEOS, num_workers, on_progress=on_progress)
    found = store.load()
    names = [lists.names[i] for i in found.indices.tolist()]
    failed = {lists.names[i]: reason for i, reason in found.errors.items()}
    none_held_out = lists.held_out(lists.names) and not lists.held_out(names)
    if none_held_out or len(failed) >= len(names):
        store.remove()  # the videos may be available later
        which = ' Among them are all held-out videos.' if none_held_out else ''
        raise ValueError(
            f'{_describe(failed, len(lists.names))}{which} No report was written. Make them '
            'available again, and start the same command again.'
        )
    for when, x in found.feats.items():
        if not x.isfinite().all():
            raise ValueError(
                f'The features of the encoder {when} are not finite. If the training has diverged, '
                'train anew with a lower learning rate.'
            )
    return found.feats, names, failed


def _describe(failed: dict[str, str], total: int) -> str:
    """Say how many videos could not be read, and name the first one."""
    name, reason = next(iter(failed.items()))
    return (
        f'{len(failed)} of {total} videos could not be read, such as {printable(name)}: {reason}.'
    )


@dataclass(frozen=True)
class Measure:
    """One result of an evaluation.

    Attributes:
        title: Title in the report.
        value: The result, in percent or without a unit.
        chance: Level of chance; None if there is none.
        spread: Standard deviation over the splits; None if there are no splits.
        percent: Whether the value is in percent.
        hits: For each query whether it was found; used to compare two encoders.
    """

    title: str
    value: float
    chance: float | None = None
    spread: float | None = None
    percent: bool = True
    hits: Sequence[bool] | None = None

    def __str__(self) -> str:
        text = f'{self.value:.1f}' if self.percent else f'{self.value:.3g}'
        return text if self.spread is None else f'{text} ± {self.spread:.1f}'


def measure(feats: Tensor, held_out: Sequence[int], labels: Sequence[int]) -> list[Measure]:
    """Measure an encoder.

    Args:
        feats: Features of evenly spaced clips of all videos, (V, 4, C).
        held_out: Indices of the held-out videos; empty if there are none.
        labels: Class of each video, given by its folder; empty if there are no classes.

    Returns:
        The measures. The first one is the headline: retrieval of the held-out videos.
    """
    first, last = feats[:, 0], feats[:, -1]
    halves = feats[:, :2].mean(1), feats[:, 2:].mean(1)
    every = range(len(feats))

    def retrieval(title: str, queries: Tensor, gallery: Tensor, rows: Sequence[int]) -> Measure:
        hits = retrieve(queries, gallery, rows)
        return Measure(title, float(100 * np.mean(hits)), 100 / len(feats), hits=hits)

    whose = f'held-out videos, among all {len(feats)}' if held_out else 'all videos'
    found = [retrieval(f'{HEADLINE} ({whose})', last, first, held_out or every)]
    if held_out:
        found.append(retrieval(f'{HEADLINE} (all videos)', last, first, every))
    title = 'second half finds its first half (all videos)'
    found.append(retrieval(title, halves[1], halves[0], every))
    if labels:
        found += classify(feats.mean(1), torch.tensor(labels), 'by folder')
    return [
        *found,
        Measure('alignment (lower is closer)', alignment(first, last), percent=False),
        Measure('uniformity (lower is more even)', uniformity(first), percent=False),
        Measure('effective rank', effective_rank(first), percent=False),
    ]


def retrieve(queries: Tensor, gallery: Tensor, rows: Sequence[int]) -> list[bool]:
    """Retrieve videos by another part of the same video.

    Args:
        queries: Features of one part of each video, (V, C).
        gallery: Features of another part, (V, C).
        rows: Indices of the query videos; the gallery contains all videos.

    Returns:
        For each query, whether its own video is the nearest neighbour.
    """
    _, indices = nearest_neighbours(queries[list(rows)], gallery, 1)
    return (indices[:, 0] == torch.tensor(rows)).tolist()


def classify(
    feats: Tensor,
    labels: Tensor,
    by: str = 'by label',
    splits: Sequence[tuple[Tensor, Tensor]] | None = None,
) -> list[Measure]:
    """Measure k-NN and linear accuracy: the mean and standard deviation over splits.

    The level of chance is the mean share of the most frequent class among the test videos.

    Args:
        feats: Features, (V, C).
        labels: Labels, (V,), from 0 to K - 1 for K classes.
        by: Origin of the labels, for the titles.
        splits: Indices of the training and of the test videos; a single split has no standard
            deviation. Default: 20 random splits, 70 % against 30 %.
    """
    rows = []  # accuracy of k-NN, accuracy of the linear classifier, chance
    unit = F.normalize(feats, dim=1)
    for train, test in splits or [split(labels, seed) for seed in range(SPLITS)]:
        k = min(MAX_NEIGHBOURS, len(train))
        predicted = knn_classify(feats[test], feats[train], labels[train], k)
        knn = (predicted == labels[test]).double().mean().item()
        linear = linear_probe(unit[train], labels[train], unit[test], labels[test])
        rows.append((knn, linear, labels[test].bincount().max().item() / len(test)))
    knn, linear, chance = (100 * np.mean(rows, axis=0)).tolist()
    spreads = (100 * np.std(rows, axis=0)).tolist() if len(rows) > 1 else [None, None]
    return [
        Measure(f'k-NN accuracy {by}', knn, chance, spreads[0]),
        Measure(f'linear accuracy {by}', linear, chance, spreads[1]),
    ]


def split(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Split videos into 70 % for training and 30 % for testing, in each class.

    Returns:
        Indices of the training and of the test videos.
    """
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label in labels.unique():
        places = rng.permutation((labels == label).nonzero()[:, 0].numpy())
        cut = round(TRAIN_SHARE * len(places))
        train.append(places[:cut])
        test.append(places[cut:])
    return torch.from_numpy(np.concatenate(train)), torch.from_numpy(np.concatenate(test))


def verdict(before: Measure, after: Measure) -> str:
    """Compare the retrieval of two encoders with an exact sign test over the videos.

    Args:
        before: Retrieval with the initial encoder.
        after: Retrieval of the same videos with the trained encoder.

    Returns:
        One or more sentences for the report.
    """
    assert before.hits is not None and after.hits is not None
    pairs = list(zip(before.hits, after.hits, strict=True))
    won, lost = pairs.count((False, True)), pairs.count((True, False))
    probability = binomtest(won, won + lost).pvalue if won + lost else 1.0
    counts = (
        f'{before} % before and {after} % after training: {won} of {len(pairs)} videos are found '
        f'only after it and {lost} only before it (two-sided sign test: p = {probability:.2g})'
    )
    if before.value == 100 and probability >= SIGNIFICANCE:
        return f'Nothing to gain here. {before.title}: {counts}. Judge by the other measures.'
    if probability >= SIGNIFICANCE:
        return f'No significant change. {before.title}: {counts}. Train longer or on more videos.'
    return f'{"Better" if won > lost else "Worse"} than before. {before.title}: {counts}.'


def _panels(held_out: bool) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the panels of the curves: title, unit and scalars."""
    whose = 'held-out' if held_out else 'training'
    return [
        ('contrastive loss', 'nats', ('loss',)),
        ('accuracy in the batch', '%', ('accuracy',)),
        ('learning rate', '', ('lr',)),
        (f'retrieval among the {whose} videos', '%', ('representation/clip_retrieval',)),
        (f'effective rank, {whose} videos', '', ('representation/feature_rank',)),
        (f'k-NN by folder, {whose} videos', '%', ('representation/knn_top1',)),
    ]


def _table(measures: dict[str, list[Measure]]) -> list[list[str]]:
    rows = [
        [
            found[0].title + (' (%)' if found[0].percent else ''),
            *map(str, found),
            '' if found[0].chance is None else f'{found[0].chance:.1f}',
        ]
        for found in zip(*measures.values(), strict=True)
    ]
    return [['', *measures, 'chance'], *rows]


def _notes(
    cfg: Config, headline: str, started: str, videos: int, unseen: int, failed: dict[str, str]
) -> list[str]:
    """Return the paragraphs of the report, from a template."""
    held = f'{unseen} of them held out'
    judged = 'judge by the first row: only held-out videos show generalisation'
    if not unseen:
        held = f'none held out (fewer than {MIN_TO_HOLD_OUT}): measured on the training videos'
        judged = 'these numbers do not show generalisation'
    text = Template(TEMPLATE.read_text(encoding='utf-8')).substitute(
        headline=headline,
        videos=videos,
        held=held,
        steps=cfg.train_cfg.max_iters,
        batch=cfg.train_dataloader.batch_size,
        started=printable(started),
        clips=NUM_CLIPS,
        judged=judged,
        whose='held-out' if unseen else 'training',
        splits=SPLITS,
        used='most' if unseen else 'all',
        failed=_describe(failed, videos + len(failed)) if failed else '',
    )
    return [' '.join(paragraph.split()) for paragraph in text.split('\n\n') if paragraph.strip()]


def _report(notes: list[str], table: list[list[str]]) -> str:
    head, *rows = [f'| {" | ".join(row)} |\n' for row in table]
    rule = '|---' + '|---:' * (len(table[0]) - 1) + '|\n'
    return '\n\n'.join(['# Report', *notes, ''.join([head, rule, *rows])])
