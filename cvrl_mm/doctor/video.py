"""Check the decoders and the pre-training pipeline."""

import importlib.util
import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose

from cvrl_mm.synthetic.motion_scene import MotionScene
from cvrl_mm.synthetic.motion_videos import NUM_FRAMES, encode

from .finding import Finding

PIPELINE = Path(__file__).parents[1] / '.mim/configs/_base_/datasets/kinetics_cvrl.py'


def check_video() -> list[Finding]:
    """Report the installed decoders, and run the pre-training pipeline once.

    PyAV reads all videos. decord is optional.
    """
    found = [
        Finding('ok', name, metadata.version(name))
        for name in ('av', 'decord')
        if importlib.util.find_spec(name) is not None
    ]
    with tempfile.TemporaryDirectory() as folder:
        return [*found, try_pipeline(Path(folder) / 'motion.mp4')]


def try_pipeline(path: Path) -> Finding:
    """Write a video to ``path`` and load it with the pre-training pipeline."""
    encode(path, MotionScene.draw(0, np.random.default_rng(0)).render(NUM_FRAMES))
    pipeline = Compose(Config.fromfile(PIPELINE).train_pipeline)
    state = np.random.get_state()
    start = time.perf_counter()
    try:
        sample = pipeline(dict(filename=str(path), label=-1, start_index=0, modality='RGB'))
    except (OSError, RuntimeError, ValueError) as error:
        advice = 'reinstall av and opencv at the tested versions (constraints.txt)'
        return Finding('problem', 'decode and augment', f'failed: {error}', advice)
    finally:
        np.random.set_state(state)
    seconds = time.perf_counter() - start
    shape = 'x'.join(map(str, sample['inputs'].shape))
    return Finding('ok', 'decode and augment', f'{shape} in {1000 * seconds:.0f} ms, first run')
