"""Show the augmentation of a video, per frame and temporally consistent (Figure 7).

Rows: the first clip without augmentation, with one draw per frame, and with one draw per clip;
then the second clip of the same sample. Without --video a video is generated.

Example:
    python tools/show_augmentations.py --video video.mp4 --config configs/cvrl/pretrain_k400.py
"""

import random
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from mmaction.registry import DATASETS
from mmaction.utils import register_all_modules
from mmengine.config import Config

import cvrl_mm
from cvrl_cli import make_parser
from cvrl_mm.augmentation import ConsistentAugment
from cvrl_mm.datasets.sampling import evenly_spaced
from cvrl_mm.runtime import plain_errors, print_warnings_only, read_config
from cvrl_mm.synthetic.motion import NUM_FRAMES, MotionScene, encode

CONFIG = Path(cvrl_mm.__file__).parent / '.mim/configs/cvrl/pretrain_k400.py'
COLUMNS = 8  # frames per row


@plain_errors()
def main() -> None:
    """Draw and save the figure."""
    parser = make_parser(__doc__)
    parser.add_argument('--video', type=Path, help='a video file; default: a generated one')
    parser.add_argument('--config', default=CONFIG, help='pre-training config (pretrain_k400.py)')
    parser.add_argument('--seed', type=int, default=0, help='seed of all draws (%(default)s)')
    parser.add_argument(
        '--out', default='augmentations.png', help='image file to write (%(default)s)'
    )
    args = parser.parse_args()
    print_warnings_only()
    register_all_modules()
    config = read_config(args.config, 'train_dataloader')
    with tempfile.TemporaryDirectory() as folder:
        video = args.video
        if video is None:
            video = Path(folder) / 'motion.mp4'
            scene = MotionScene.draw(0, np.random.default_rng(args.seed))
            encode(video, scene.render(NUM_FRAMES))
        (Path(folder) / 'list.txt').write_text(f'{video.resolve()}\n')
        clips = {
            over: trace(config, Path(folder) / 'list.txt', over, args.seed)
            for over in ('clip', 'frame')
        }
    before, after, frame_inds = clips['clip']
    spans = [f'frames {inds[0]} to {inds[-1]}' for inds in frame_inds]
    rows = {
        f'first clip, {spans[0]}': before[0],
        'one draw per frame': clips['frame'][1][0],
        'one draw per clip: consistent in time': after[0],
        f'second clip, {spans[1]}': before[1],
        'its own draw': after[1],
    }
    chosen = evenly_spaced(len(before[0]), COLUMNS)
    plot_clips({title: clip[chosen] for title, clip in rows.items()}, args.out)
    print(f'{args.out}: every clip has {len(before[0])} frames, {len(chosen)} are shown')


def trace(
    config: Config, video_list: Path, over: str, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load the only video of a list; the same seed gives the same frames for every ``over``.

    Returns:
        The two clips before the augmentation, (2, T, H, W, 3) uint8, and after it, and the numbers
        of their frames, (2, T).
    """
    settings = config.train_dataloader.dataset.copy()
    settings.update(ann_file=str(video_list), data_prefix=dict(video=''))
    dataset = DATASETS.build(settings)
    np.random.seed(seed)
    random.seed(seed)  # used by MMAction2's crop
    results = dataset.get_data_info(0)
    for transform in dataset.pipeline.transforms:
        if isinstance(transform, ConsistentAugment):
            before, transform.over = np.stack(results['imgs']), over
            results = transform(results)
            found = (before, results['imgs'], results['frame_inds'])
            before, after, inds = (np.asarray(x).reshape(2, -1, *x.shape[1:]) for x in found)
            return before, after, inds
        results = transform(results)
    raise ValueError('The pipeline has no ConsistentAugment, so there is nothing to show.')


def plot_clips(rows: dict[str, np.ndarray], path: str) -> None:
    """Plot clips, (T, H, W, 3) uint8, one per row with its title."""
    num_frames = max(len(clip) for clip in rows.values())
    layout = ConstrainedLayoutEngine(h_pad=0.22)  # inches, for the titles
    figure = Figure(figsize=(1.2 * num_frames, 1.5 * len(rows)), layout=layout)
    grid = figure.subplots(len(rows), num_frames, squeeze=False)
    for line, (title, clip) in zip(grid, rows.items(), strict=True):
        # excluded from the layout, because a long title would widen its column
        line[0].text(0, 1.06, title, transform=line[0].transAxes, fontsize=10).set_in_layout(False)
        for axes, frame in zip(line, clip, strict=True):
            axes.set_axis_off()
            axes.imshow(frame)
    figure.savefig(path, dpi=120)


if __name__ == '__main__':
    main()
