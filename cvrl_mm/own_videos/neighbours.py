"""Show videos and their nearest neighbours on a page (``cvrl neighbours OUT``)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from ..datasets.lists import gather_videos
from ..evaluation.encoder import load_encoder
from ..evaluation.knn import leave_one_out, nearest_neighbours
from ..io import evenly_spaced, printable, progress
from ..visualization.pages import Neighbour, Query, write_neighbour_page
from .encoding import encode
from .trained import FEATURES, Trained, how_to_write_again


def show_neighbours(
    out: str | Path, videos: Sequence[str | Path] = (), rows: int = 12, neighbours: int = 5
) -> tuple[Path, list[str]]:
    """Write a page with videos and their nearest neighbours among the videos of a training.

    Args:
        out: Output folder of the training.
        videos: Query videos: files, folders or lists. Default: the held-out videos of the
            training, or all of its videos if none is held out.
        rows: Number of query videos that are shown, evenly spread over all.
        neighbours: Number of neighbours per query.

    Returns:
        Path of the page, ``OUT/neighbours/index.html``; and lines of text about videos that cannot
        be read and about an earlier page.

    Raises:
        FileNotFoundError: ``out`` does not hold a finished training, or a source does not exist.
        ValueError: No video can be read, a file of the training is damaged, or a number is below 1.
    """
    if min(rows, neighbours) < 1:
        raise ValueError(f'rows and neighbours must be at least 1, got {rows} and {neighbours}.')
    trained = Trained.read(out)
    failed: dict[str, str] = {}
    if videos:
        queries, failed = _find_other(trained, videos, rows, neighbours)
        what = f'{len(queries)} other videos'
    else:
        queries = _find_own(trained, rows, neighbours)
        what = f'{len(queries)} {"held-out " if trained.held_out else ""}videos'
    note = f'{what} among the {len(trained.names)} videos below {trained.root}.'
    if failed:
        note += f' Cannot be read: {", ".join(Path(path).name for path in failed)}.'
    folder = trained.folder / 'neighbours'
    is_new = not (folder / 'index.html').is_file()
    page, unreadable = write_neighbour_page(folder, 'Nearest neighbours', note, queries)
    notes = [f'Cannot be read: {printable(path)}: {reason}' for path, reason in failed.items()]
    notes += [f'Cannot be read: {printable(path)}' for path in unreadable]
    return page, notes if is_new else [*notes, f'The earlier page in {folder} was replaced.']


def _find_own(trained: Trained, rows: int, number: int) -> list[Query]:
    """Find the neighbours of videos of the training."""
    sims, indices = leave_one_out(trained.feats, min(number, len(trained.names) - 1))
    pool = trained.held_out or list(range(len(trained.names)))
    chosen = [pool[i] for i in evenly_spaced(len(pool), rows)]
    return [
        Query(
            str(trained.root / trained.names[i]),
            _label(trained, i),
            _neighbours(trained, sims[i], indices[i]),
        )
        for i in chosen
    ]


def _find_other(
    trained: Trained, videos: Sequence[str | Path], rows: int, number: int
) -> tuple[list[Query], dict[str, str]]:
    """Encode other videos and find their neighbours; return also the unreadable videos."""
    paths = gather_videos(videos)
    paths = [str(Path(paths[i]).absolute()) for i in evenly_spaced(len(paths), rows)]
    encoder = load_encoder(trained.folder)
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    with progress('Encoding the videos', Console(stderr=True)) as on_progress:
        feats, read, failed = encode(
            dict(trained=encoder), Path('/'), paths, 0, device, on_progress
        )
    queried = feats['trained'].mean(1)
    if queried.shape[1] != trained.feats.shape[1]:
        raise ValueError(
            f'The encoder in {trained.folder} computes {queried.shape[1]} features per video, but '
            f'{FEATURES} contains {trained.feats.shape[1]}: they belong to different trainings. '
            f'{how_to_write_again(trained.folder)}'
        )
    sims, indices = nearest_neighbours(queried, trained.feats, min(number, len(trained.names)))
    queries = [
        Query(path, None, _neighbours(trained, sims[i], indices[i])) for i, path in enumerate(read)
    ]
    return queries, failed


def _neighbours(trained: Trained, sims: torch.Tensor, indices: torch.Tensor) -> list[Neighbour]:
    return [
        Neighbour(str(trained.root / trained.names[j]), _label(trained, j), similarity)
        for j, similarity in zip(indices.tolist(), sims.tolist(), strict=True)
    ]


def _label(trained: Trained, place: int) -> str | None:
    label = trained.labels.get(trained.names[place], -1)
    return trained.classes[label] if label >= 0 else None
