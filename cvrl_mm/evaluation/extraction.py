"""Extract the features of many videos with one or several processes."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from .encoder import Encoder
from .feature_file import FeatureFile
from .feature_parts import FeaturePart, join_parts
from .features import weights_sha256
from .video_files import VideoFiles


def extract_to_file(
    encoder: Encoder,
    paths: Sequence[str],
    out: str | Path,
    num_clips: int = 10,
    batch_size: int = 2,
    num_workers: int = 4,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, str] | None:
    """Write one feature vector per video, the mean over its clips.

    The features of each batch are written to disk immediately, so another call with the same
    arguments continues an interrupted one. Videos that cannot be read, or at which the decoder
    hangs, are left out.

    Args:
        encoder: The encoder, on the device to compute on.
        paths: Paths of the videos.
        out: A file name that ends in ``.npz`` or ``.parquet``.
        num_clips: Number of clips per video.
        batch_size: Number of videos per batch.
        num_workers: Number of decoding processes.
        rank: Rank of this process; it encodes every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of finished videos and the number of all videos of
            this process.

    Returns:
        The unreadable videos, as ``{path: reason}``. None if several processes share the list;
        :func:`join_parts` then writes the file.

    Raises:
        ValueError: ``out`` has another suffix or cannot contain a path, there are unfinished parts
            of another run, or no video could be read.
        BlockingIOError: Another process works on this output.
        ChildProcessError: A loader worker was killed, for example because memory ran out.
    """
    FeatureFile(out).check_names(paths)  # fails early if the file cannot be written
    source = dict(
        backbone=encoder.meta.get('backbone'),  # equal weights fit networks of other padding
        weights_sha256=weights_sha256(encoder.backbone),
        clips=encoder.clip_input.to_dict(),
        num_clips=num_clips,
    )
    part = FeaturePart(out, paths, source, rank, size)
    with part:
        on_progress(len(part.done), len(part.share))
        videos = VideoFiles([paths[i] for i in part.left()], encoder.clip_input, num_clips)
        try:
            _encode(encoder, videos, part, batch_size, num_workers, on_progress)
        except RuntimeError as error:
            # When a worker dies, torch raises this error at whatever line is being executed.
            if 'DataLoader worker' not in str(error):
                raise
            raise ChildProcessError(
                f'{str(error).strip(". ")}. Finished videos are kept; run the same command again '
                'to continue with the others. If it ends at the same place again, a video probably '
                'crashes the decoder: cvrl check finds it, and docs/encoder.md '
                'describes how to leave it out.'
            ) from error
    return join_parts(out) if size == 1 else None


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _encode(
    encoder: Encoder,
    videos: VideoFiles,
    part: FeaturePart,
    batch_size: int,
    num_workers: int,
    on_progress: Callable[[int, int], None],
) -> None:
    left = part.left()
    if not left:
        return
    loader = DataLoader(videos, batch_size, num_workers=num_workers, collate_fn=list)
    for samples in loader:
        part.fail({left[s['index']]: s['error'] for s in samples if 'error' in s})
        readable = [s for s in samples if 'inputs' in s]
        if readable:
            clips = torch.cat([s['inputs'] for s in readable])
            feats = encoder.features(clips).unflatten(0, (len(readable), -1)).mean(1)
            places = [left[int(s['data_samples'].gt_label)] for s in readable]
            part.append(places, feats.cpu().numpy())
        on_progress(len(part.done), len(part.share))
