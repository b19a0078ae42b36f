"""Features of a list of videos on a cluster with Ray Data: paths in, Parquet out.

Each worker is an actor that loads the encoder once. OUT, which must not exist, gets files with the
columns ``path``, ``feat`` (the mean over the clips; NaN for an unreadable video) and ``error``.

Example:
    pip install 'ray[data]' pyarrow
    python docs/examples/ray_features.py encoder.safetensors list.txt OUT --workers 8 --gpus 1

The list has one path per line. Without RAY_ADDRESS this machine is the cluster.
"""

import argparse
import os

import numpy as np
import ray
import torch

import cvrl_mm
from cvrl_mm.evaluation.clips import VideoClips


class Encode:
    """An actor of ``map_batches``: {'text': paths} -> {'path', 'feat', 'error'}."""

    def __init__(self, weights: str, num_clips: int, use_gpu: bool) -> None:
        self.encoder = cvrl_mm.load_encoder(weights).to('cuda' if use_gpu else 'cpu')
        self.num_clips = num_clips
        clip = torch.zeros(1, 3, self.encoder.clip_len, 64, 64, dtype=torch.uint8)
        self.num_channels = self.encoder.features(clip).shape[1]

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Encode the videos of a batch, (n,) paths."""
        paths = [str(path) for path in batch['text']]
        videos = VideoClips(paths, self.encoder.clip_input, self.num_clips)
        feats = np.full((len(paths), self.num_channels), np.nan, np.float32)
        errors = [''] * len(paths)
        for i in range(len(paths)):
            sample = videos[i]  # limits the time for reading a file
            if 'error' in sample:
                errors[i] = sample['error']
            else:
                feats[i] = self.encoder.features(sample['inputs']).mean(0).cpu().numpy()
        return dict(path=np.array(paths), feat=feats, error=np.array(errors))


def main() -> None:
    """Read the list, encode and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('weights', help='a file that load_encoder takes, seen by all workers')
    parser.add_argument('list', help='one path per line')
    parser.add_argument('out', help='folder or address to write')
    parser.add_argument('--workers', type=int, default=2, help='actors (%(default)s)')
    parser.add_argument('--gpus', type=float, default=0, help='GPUs per actor (%(default)s)')
    parser.add_argument('--num-clips', type=int, default=10, help='clips per video (%(default)s)')
    parser.add_argument('--batch-size', type=int, default=16, help='videos per batch (%(default)s)')
    args = parser.parse_args()
    if 'RAY_ADDRESS' not in os.environ:
        # One processor is left for reading the list and writing the files.
        ray.init(num_cpus=args.workers + 1, include_dashboard=False)
    try:
        videos = ray.data.read_text(os.path.abspath(args.list), override_num_blocks=args.workers)
        features = videos.map_batches(
            Encode,
            fn_constructor_args=(args.weights, args.num_clips, args.gpus > 0),
            batch_size=args.batch_size,
            concurrency=args.workers,
            num_gpus=args.gpus,
        )
        features.write_parquet(args.out, mode=ray.data.SaveMode.ERROR)  # never beside others
    finally:
        ray.shutdown()


if __name__ == '__main__':
    main()
