"""Write a small labelled set of generated videos for pre-training within minutes."""

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np

from .motion_scene import CLASSES, TRANSFER_CLASSES, MotionClasses, MotionScene

VERSION = 3  # increase it if rendered frames change, so that sets are not mixed
NUM_FRAMES = 40
SETS = {'motion': CLASSES, 'transfer': TRANSFER_CLASSES}
# Many videos begin or end with another scene, so that two distant clips may show two classes.
SECOND_SCENE_PROB = 0.4
SECOND_SCENE_FRAMES = (8, 16)  # shortest and longest
FRAME_RATE = 25
# A low crf keeps compression noise from identifying a video. Close key frames and no loop filter
# (fastdecode) make random clips quick to decode.
X264_OPTIONS = {'crf': '10', 'preset': 'veryfast', 'tune': 'fastdecode', 'g': '8', 'bf': '0'}


def write_motion_videos(
    root: str | Path,
    num_train: int,
    num_test: int,
    seed: int = 0,
    classes: str = 'motion',
    num_workers: int = 2,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write ``videos/*.mp4``, ``train.txt``, ``test.txt`` and ``classes.txt`` into ``root``.

    The lists are MMAction2's for ``VideoDataset``: one line per video with a path relative to
    ``root`` and a label. Classes are balanced. A video depends only on ``seed``, its split and its
    number. ``root`` is created when the set is complete; an existing set with the same settings is
    kept.

    Args:
        root: Output folder. It must not exist, be empty, or hold this set.
        num_train: Number of training videos.
        num_test: Number of test videos.
        seed: Seed of all random draws.
        classes: ``'motion'``, or ``'transfer'`` for a set that shares no path and no structure with
            it.
        num_workers: Number of threads that render and encode.
        on_progress: Called with the number of finished videos and the total.

    Raises:
        ValueError: A number is out of range.
        FileExistsError: ``root`` holds other files or a set of other settings.
    """
    for name, number in dict(
        num_train=num_train, num_test=num_test, num_workers=num_workers
    ).items():
        if number < 1:
            raise ValueError(f'{name} must be at least 1, got {number}.')
    if seed < 0:
        raise ValueError(f'seed must not be negative, got {seed}.')
    if classes not in SETS:
        raise ValueError(f'classes must be one of {", ".join(SETS)}, got {classes!r}.')
    root = Path(root).resolve()  # the set replaces the folder, not a link to it
    settings: dict[str, Any] = dict(
        num_train=num_train, num_test=num_test, seed=seed, classes=classes, version=VERSION
    )
    if _is_there(root, settings):
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'.{root.name}-', dir=root.parent) as scratch:
        unfinished = Path(scratch) / 'set'
        (unfinished / 'videos').mkdir(parents=True)
        _write_videos(unfinished, settings, num_workers, on_progress)
        (unfinished / 'classes.txt').write_text('\n'.join(SETS[classes].names) + '\n')
        (unfinished / 'settings.json').write_text(json.dumps(settings) + '\n')
        try:
            unfinished.replace(root)
        except OSError:  # another process may have written the same set at the same time
            if not _is_there(root, settings):
                raise


def _is_there(root: Path, settings: dict[str, Any]) -> bool:
    """Return whether ``root`` contains this set; raise an error if it contains other files."""
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return False
    written = root / 'settings.json'
    found = written.read_text().strip() if written.is_file() else 'other files'
    if found == json.dumps(settings):
        return True
    raise FileExistsError(
        f'{root} holds {found}, not the set of {json.dumps(settings)}: '
        'choose another folder or remove this one.'
    )


def _write_videos(
    root: Path,
    settings: dict[str, Any],
    num_workers: int,
    on_progress: Callable[[int, int], None],
) -> None:
    """Write the videos and the list of each split."""
    classes = SETS[settings['classes']]
    done, total = 0, settings['num_train'] + settings['num_test']
    with ThreadPoolExecutor(num_workers) as pool:
        for split_number, split in enumerate(('train', 'test')):
            indices = range(settings[f'num_{split}'])
            labels = [index % len(classes.names) for index in indices]
            names = [f'videos/{split}_{index:05d}.mp4' for index in indices]

            def write(index: int, name: str, label: int, stream: int = split_number) -> None:
                rng = np.random.default_rng([settings['seed'], stream, index])
                encode(root / name, render_video(label, rng, classes))

            for _ in pool.map(write, indices, names, labels):
                done += 1
                on_progress(done, total)
            lines = [f'{name} {label}\n' for name, label in zip(names, labels, strict=True)]
            (root / f'{split}.txt').write_text(''.join(lines))


def render_video(
    label: int, rng: np.random.Generator, classes: MotionClasses = CLASSES
) -> np.ndarray:
    """Render a video with a scene of its class and, in some videos, a second scene of any class.

    The second scene is shorter, has the same camera, and is at the start or the end of the video.

    Args:
        label: Index into the names of ``classes``.
        rng: Random generator.
        classes: The classes of the set.

    Returns:
        (NUM_FRAMES, H, W, 3) uint8, RGB.
    """
    scene = MotionScene.draw(label, rng, classes)
    if rng.random() >= SECOND_SCENE_PROB:
        return scene.render(NUM_FRAMES)
    num_frames = int(rng.integers(*SECOND_SCENE_FRAMES, endpoint=True))
    other = MotionScene.draw(int(rng.integers(len(classes.names))), rng, classes)
    parts = [
        scene.render(NUM_FRAMES - num_frames),
        replace(other, camera=scene.camera).render(num_frames),
    ]
    return np.concatenate(parts if rng.random() < 0.5 else parts[::-1])


def encode(path: Path, frames: np.ndarray) -> None:
    """Encode frames as H.264 (yuv420p).

    Args:
        path: An ``.mp4`` file.
        frames: (T, H, W, 3) uint8, RGB; H and W even.
    """
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=FRAME_RATE, options=X264_OPTIONS)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = 'yuv420p'
        stream.codec_context.thread_count = 1  # videos are encoded side by side
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format='rgb24')))
        container.mux(stream.encode())
