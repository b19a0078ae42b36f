"""Repack the videos of a list, and write the list for the new folder."""

import os
from pathlib import Path
from typing import Any

from ..datasets.video_list_dataset import VideoListDataset
from ..io import replacing
from .repack import RepackReport, join_repacked, repack
from .repack_video import RepackSettings


def repack_list(
    ann_file: Path, root: Path, target: Path, settings: RepackSettings, **kwargs: Any
) -> RepackReport | None:
    """Repack the videos of a list, and write a list with the same name in the new folder.

    Args:
        ann_file: A list for :class:`VideoListDataset`.
        root: Folder to which its paths are relative.
        target: As for :func:`repack`.
        settings: As for :func:`repack`.
        kwargs: As for :func:`repack`.

    Returns:
        New names and failures. None if several jobs share the list; :func:`join_list` then returns
        them and writes the list.

    Raises:
        FileNotFoundError: The list or more than 5 % of the checked files do not exist.
        ValueError: See :func:`repack`; also if the list is malformed.
    """
    videos, labels = _read_list(ann_file, root)
    report = repack(root, videos, target, settings, **kwargs)
    if report is not None:
        _write_list(target / ann_file.name, videos, labels, report)
    return report


def join_list(ann_file: Path, root: Path, target: Path) -> RepackReport:
    """Join the shares of a list (:func:`join_repacked`), and write the list in the new folder.

    Args:
        ann_file: As for :func:`repack_list`.
        root: As for :func:`repack_list`.
        target: As for :func:`repack_list`.

    Returns:
        New names and failures.

    Raises:
        FileNotFoundError: See :func:`repack_list` and :func:`join_repacked`.
        ValueError: See :func:`join_repacked`; also if the list is malformed.
        BlockingIOError: A process still works on a share.
    """
    videos, labels = _read_list(ann_file, root)
    report = join_repacked(root, videos, target)
    _write_list(target / ann_file.name, videos, labels, report)
    return report


def _read_list(ann_file: Path, root: Path) -> tuple[list[str], list[int]]:
    dataset = VideoListDataset(str(ann_file), [], data_prefix=dict(video=str(root)))
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return (
        [os.path.relpath(info['filename'], root) for info in infos],
        [info['label'] for info in infos],
    )


def _write_list(path: Path, videos: list[str], labels: list[int], report: RepackReport) -> None:
    with replacing(path) as part, part.open('w', encoding='utf-8') as file:
        for video, label in zip(videos, labels, strict=True):
            name = report.names[video]
            if name is not None:
                file.write(f'{name}\n' if label == -1 else f'{name} {label}\n')
