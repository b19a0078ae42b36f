"""Write pooled features of videos to a file: one vector per video, averaged over its clips.

With --every SECONDS, OUT is a folder with one file per video: the features over time, (T, C).

The checkpoint or --config describes the clips. Finished videos are kept in
OUT.parts, so the same command continues an interrupted extraction. With torchrun, srun or a Slurm
array, each process encodes its share of the videos, and the last one writes OUT.

Examples:
    cvrl features r3d50_k400_released.pth videos/ -o feats.npz
    cvrl features epoch_800.pth val.txt --root data/videos -o feats.parquet
    cvrl features random videos/ -o random.npz --config CONFIG
    cvrl features encoder.safetensors videos/ -o over_time/ --every 0.5
    torchrun --nproc_per_node 8 --no-python cvrl features encoder.safetensors list.txt -o feats.npz
    sbatch --array=0-7 --wrap "cvrl features encoder.pth list.txt -o feats.npz"

In Python:
    data = np.load('feats.npz'); data['names'], data['feats']  # (V,), (V, 2048)
"""

import dataclasses
import os
from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    checkpoint = 'a weights file, a checkpoint of a run, or "random" (with --config)'
    parser.add_argument('checkpoint', help=checkpoint)
    config = 'config of the clips, and of an architecture that is not in the checkpoint'
    parser.add_argument('videos', nargs='+', help='videos, folders, or lists (.txt)')
    parser.add_argument('-o', '--out', required=True, help='a file .npz or .parquet, or a folder')
    parser.add_argument('--every', type=float, help='seconds from one clip to the next, over time')
    parser.add_argument('--config', help=config)
    parser.add_argument('--root', help='folder of the paths in lists (folder of the list)')
    for name, default, text in (
        ('--clip-len', None, 'frames per clip (as the encoder expects)'),
        ('--frame-interval', None, 'frames between those of a clip (as the encoder expects)'),
        ('--size', None, 'side of the crop in pixels (as the encoder expects)'),
        ('--num-clips', 10, 'clips per video (10)'),
        ('--batch-size', 2, 'videos per batch (2)'),
        ('--workers', None, 'decoding processes, 0 for none (one per core, at most 4)'),
    ):
        parser.add_argument(name, type=int, default=default, help=text)
    parser.add_argument('--device', help='where to compute, such as cuda:0 (a GPU if there is one)')


def default_device() -> str:
    """Return the GPU of this process, or the CPU."""
    import torch

    if not torch.cuda.is_available():
        return 'cpu'
    return f'cuda:{int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count()}'


def run(args: Namespace) -> None:
    """Extract the share of this process, and list the unreadable videos."""
    from cvrl_mm.datasets.lists import gather_videos
    from cvrl_mm.encoder.encoder import load_encoder
    from cvrl_mm.evaluation.files import check_features_path, extract_over_time, extract_to_file
    from cvrl_mm.processes import usable_cores
    from cvrl_mm.progress import shared_work
    from cvrl_mm.runtime import print_warnings_only, read_config
    from cvrl_mm.text import printable

    print_warnings_only()
    device = args.device or default_device()
    if args.every is None:
        check_features_path(args.out)  # before the encoder is loaded
    paths = gather_videos(args.videos, args.root)
    config = read_config(args.config, 'model') if args.config is not None else None
    encoder = load_encoder(args.checkpoint, config).to(device)
    given = {k: getattr(args, k) for k in ('clip_len', 'frame_interval', 'size')}
    given = {k: v for k, v in given.items() if v is not None}
    encoder.clip_input = dataclasses.replace(encoder.clip_input, **given)
    with shared_work('Encoding') as share:
        if args.every is None:
            failed = extract_to_file(
                encoder,
                paths,
                args.out,
                num_clips=args.num_clips,
                batch_size=args.batch_size,
                num_workers=min(4, usable_cores()) if args.workers is None else args.workers,
                **share,
            )
        else:
            failed = extract_over_time(encoder, paths, args.out, args.every, **share)
            paths = paths[share['rank'] :: share['size']]
    if failed is None:
        print(f'This share is finished; the last one writes {args.out}.')
        if 'SLURM_ARRAY_TASK_ID' in os.environ:
            print('All tasks of the Slurm array share these videos; each needs the same -o.')
        return
    print(f'{len(paths) - len(failed)} of {len(paths)} videos: {args.out}')
    for path, reason in failed.items():
        print(f'left out: {printable(path)}: {reason}')
