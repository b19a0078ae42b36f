"""Generated videos whose classes are motions, for pre-training within minutes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, reduce
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np

from ..io import claim_folder
from ..processes import usable_cores

VERSION = 3  # increase it if rendered frames change, so that sets are not mixed
SIZE = 64  # pixels, width and height
NUM_FRAMES = 40
FRAME_RATE = 25
# A low crf keeps compression noise from identifying a video. Close key frames and no loop filter
# (fastdecode) make random clips quick to decode.
X264_OPTIONS = {'crf': '10', 'preset': 'veryfast', 'tune': 'fastdecode', 'g': '8', 'bf': '0'}
# Many videos begin or end with another scene, so that two distant clips may show two classes.
SECOND_SCENE_PROB = 0.4
SECOND_SCENE_FRAMES = (8, 16)  # shortest and longest

# One palette for each path; videos have it, or with a probability of 1 - RELATED_PALETTE any one
PALETTES = np.array(
    [  # background, objects; RGB
        [[52, 64, 84], [214, 178, 120]],
        [[98, 66, 58], [148, 204, 190]],
        [[58, 84, 62], [206, 160, 190]],
        [[84, 76, 100], [200, 206, 132]],
        [[64, 64, 64], [222, 128, 106]],
        [[44, 82, 90], [228, 220, 160]],
        [[100, 92, 54], [136, 156, 220]],
        [[92, 54, 80], [150, 214, 146]],
    ],
    dtype=np.float32,
)
RELATED_PALETTE = 0.6
NUM_TEXTURES = 3
TEXTURE_CONTRAST = 8.0  # grey levels
SPEEDS = (0.6, 1.5)  # slow and fast
SPEED_RANGE = (0.85, 1.15)  # factor of the speed of a video
DRIFT = 2.3  # pixels per frame, at speed 1
RADIUS = 6.7  # of closed paths, pixels
RATE = 0.55  # of closed paths, radians per frame, at speed 1

# How objects move: in a direction (x, y), or on a closed path with these radii along x and y. The
# first eight are the paths of CLASSES, the others of TRANSFER_CLASSES.
PATHS = {
    'horizontal': ('drift', 1, 0),
    'down': ('drift', 0, 1),
    'up': ('drift', 0, -1),
    'diagonal down': ('drift', 0.7, 0.7),
    'diagonal up': ('drift', 0.7, -0.7),
    'circle': ('closed', 1, 1),
    'horizontal swing': ('closed', 1, 0),
    'vertical swing': ('closed', 0, 1),
    'flat down': ('drift', 0.92, 0.38),
    'flat up': ('drift', 0.92, -0.38),
    'steep down': ('drift', 0.38, 0.92),
    'steep up': ('drift', 0.38, -0.92),
    'wide ellipse': ('closed', 1, 0.5),
    'tall ellipse': ('closed', 0.5, 1),
    'diagonal swing': ('closed', 0.7, 0.7),
    'figure eight': ('closed', 1, 1),
}

# Signed distance to the nearest outline, (T, H, W), negative inside, from the distances to the
# objects' centres, x (T, N, 1, W) and y (T, N, H, 1), and their radius r, all in pixels
Shape = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
Norm = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _round(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sqrt(x * x + y * y)


def _square(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(x), np.abs(y))


def _diamond(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.abs(x) + np.abs(y)) / np.sqrt(2)


def _solid(norm: Norm, size: float) -> Shape:
    return lambda x, y, r: norm(x, y).min(axis=1) - size * r


def _hollow(norm: Norm) -> Shape:
    return lambda x, y, r: (np.abs(norm(x, y) - 0.8 * r) - 0.2 * r).min(axis=1)


def _oval(width: float, height: float) -> Shape:
    unit = min(width, height)
    return lambda x, y, r: (_round(x / (width * r), y / (height * r)).min(axis=1) - 1) * (unit * r)


def _bars(*bars: tuple[float, float, float, float]) -> Shape:
    """Make a shape of bars, given by centre and half extent along x and y, in units of r."""

    def distance(x: np.ndarray, y: np.ndarray, r: float) -> np.ndarray:
        scaled = r * np.array(bars, np.float32)
        apart = (np.maximum(abs(x - cx) - dx, abs(y - cy) - dy) for cx, cy, dx, dy in scaled)
        return reduce(np.minimum, (each.min(axis=1) for each in apart))

    return distance


_plus = _bars((0, 0, 1.5, 0.33), (0, 0, 0.33, 1.5))
# The first eight are the structures of CLASSES, the others of TRANSFER_CLASSES.
STRUCTURES: dict[str, Shape] = {
    'disc': _solid(_round, 0.9),
    'horizontal bar': _bars((0, 0, 1.5, 0.33)),
    'vertical bar': _bars((0, 0, 0.33, 1.5)),
    'plus': _plus,
    'ring': _hollow(_round),
    'square': _solid(_square, 0.8),
    'diamond': _solid(_diamond, 0.8),
    'cross': lambda x, y, r: _plus((x + y) / np.sqrt(2), (x - y) / np.sqrt(2), r),
    'wide oval': _oval(1.3, 0.6),
    'tall oval': _oval(0.6, 1.3),
    'frame': _hollow(_square),
    'hollow diamond': _hollow(_diamond),
    'T': _bars((0, -0.8, 1.1, 0.33), (0, 0, 0.33, 1.1)),
    'H': _bars((-0.8, 0, 0.33, 1.1), (0.8, 0, 0.33, 1.1), (0, 0, 0.8, 0.33)),
    'two bars': _bars((0, -0.7, 1.1, 0.33), (0, 0.7, 1.1, 0.33)),
    'two columns': _bars((-0.7, 0, 0.33, 1.1), (0.7, 0, 0.33, 1.1)),
}


class MotionClass(NamedTuple):
    """A class of videos: the motion and the look of its objects.

    Attributes:
        path: A key of ``PATHS``.
        structure: Shape of the objects, a key of ``STRUCTURES``.
        is_fast: Which of the two speeds.
    """

    path: str
    structure: str
    is_fast: bool

    @property
    def name(self) -> str:
        """What the videos show."""
        return f'{self.structure}, {"fast" if self.is_fast else "slow"} {self.path}'


def combine(paths: Sequence[str], structures: Sequence[str]) -> tuple[MotionClass, ...]:
    """Make the classes of a set in the order of their labels: every path at two speeds.

    Each structure occurs in two classes of different paths and speeds, so that a single frame does
    not reveal the class. Mirroring a video keeps its class.

    Args:
        paths: Keys of ``PATHS``.
        structures: Keys of ``STRUCTURES``, as many as paths, a power of two.
    """
    return tuple(
        MotionClass(path, structures[(3 * i + is_fast) % len(structures)], is_fast)
        for i, path in enumerate(paths)
        for is_fast in (False, True)
    )


CLASSES = combine(tuple(PATHS)[:8], tuple(STRUCTURES)[:8])
TRANSFER_CLASSES = combine(tuple(PATHS)[8:], tuple(STRUCTURES)[8:])
SETS = {'motion': CLASSES, 'transfer': TRANSFER_CLASSES}


def draw_camera(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Draw a function that gives images, (H, W, 3) float32 RGB, the colour and noise of a camera.

    They are equal in all frames of a video and independent of its class: a shortcut for the
    contrastive loss (Eq. 1), which augmentation must remove.
    """
    gain, contrast = rng.uniform(0.82, 1.18), rng.uniform(0.82, 1.18)
    saturation, turns = rng.uniform(0.8, 1.2), rng.uniform(-0.05, 0.05)
    noise = (rng.uniform(0, 7.5) * rng.standard_normal((SIZE, SIZE))).astype(np.float32)

    def camera(image: np.ndarray) -> np.ndarray:
        hsv = cv2.cvtColor(np.clip(image, 0, 255) / 255, cv2.COLOR_RGB2HSV)  # hue in degrees
        hsv[..., 0] = (hsv[..., 0] + 360 * turns) % 360
        hsv[..., 1] = np.clip(hsv[..., 1] * saturation, 0, 1)
        image = 255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
        return np.clip(gain * (128 + contrast * (image - 128)) + noise[..., None], 0, 255)

    return camera


@dataclass(frozen=True)
class MotionScene:
    """All random parameters of a scene.

    Attributes:
        kind: The class.
        anchors: Start of each object or centre of its closed path, (N, 2), x and y in pixels.
        phases: Start angle of each object on its closed path, (N,), radians.
        radius: Radius of every object, pixels.
        speed: Factor of the speed of the motion.
        side: 1, or -1 for the mirrored motion.
        palette: Index into ``PALETTES``.
        texture: Index of one of the ``NUM_TEXTURES`` backgrounds.
        texture_shift: Shift of the texture, (y, x) in pixels, wrapped around the edges.
        camera: Gives an image the colour and noise of the camera (:func:`draw_camera`).
    """

    kind: MotionClass
    anchors: np.ndarray
    phases: np.ndarray
    radius: float
    speed: float
    side: int
    palette: int
    texture: int
    texture_shift: tuple[int, ...]
    camera: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def draw(
        cls, label: int, rng: np.random.Generator, classes: Sequence[MotionClass] = CLASSES
    ) -> 'MotionScene':
        """Draw a scene of class ``label``, an index into ``classes``.

        The class sets the path, the speed within ``SPEED_RANGE``, the structure and, with
        probability ``RELATED_PALETTE``, the palette. The rest is independent of the class.
        """
        count = rng.integers(6, 10)
        related = rng.random() < RELATED_PALETTE
        palette = int(rng.integers(len(PALETTES)))
        return cls(
            kind=classes[label],
            anchors=rng.uniform(0, SIZE, (count, 2)),
            phases=rng.uniform(0, 2 * np.pi, count),
            radius=rng.uniform(6.5, 8.5),
            speed=SPEEDS[label % 2] * rng.uniform(*SPEED_RANGE),
            # Down and up are two classes, but left and right are one: a flip keeps the class.
            side=-1 if rng.random() < 0.5 else 1,
            palette=label // 2 if related else palette,
            texture=int(rng.integers(NUM_TEXTURES)),
            texture_shift=tuple(int(shift) for shift in rng.integers(SIZE, size=2)),
            camera=draw_camera(rng),
        )

    def centres(self, num_frames: int) -> np.ndarray:
        """Compute the object positions, (T, N, 2), x and y in pixels, wrapped at the edges."""
        form, *axes = PATHS[self.kind.path]
        frame = np.arange(num_frames)[:, None]  # (T, 1)
        if form == 'closed':
            angle = self.phases + self.speed * RATE * frame  # (T, N)
            along_x, along_y = np.cos(angle), np.sin(angle)
            if self.kind.path == 'diagonal swing':
                along_y = along_x
            if self.kind.path == 'figure eight':
                along_y = np.sin(2 * angle)
            offset = RADIUS * np.array(axes) * np.stack([along_x, along_y], axis=-1)
        else:
            offset = (self.speed * DRIFT * frame * np.array(axes))[:, None]  # (T, 1, 2)
        return (self.anchors + offset * (self.side, 1)) % SIZE

    def cover(self, num_frames: int) -> np.ndarray:
        """Compute the share of each pixel that objects cover, (T, H, W), 0 to 1, anti-aliased."""
        pixel = np.arange(SIZE, dtype=np.float32)
        centres = self.centres(num_frames).astype(np.float32)[..., None]  # (T, N, 2, 1)
        apart = (pixel - centres + SIZE / 2) % SIZE - SIZE / 2  # on the torus
        x, y = apart[:, :, 0, None, :], apart[:, :, 1, :, None]  # (T, N, 1, W), (T, N, H, 1)
        return np.clip(0.5 - STRUCTURES[self.kind.structure](x, y, self.radius), 0, 1)

    def render(self, num_frames: int) -> np.ndarray:
        """Render frames, (T, H, W, 3) uint8, RGB."""
        background, colour = PALETTES[self.palette]
        texture = np.roll(_textures()[self.texture], self.texture_shift, axis=(0, 1))
        # The camera acts on single pixels, so it can be applied to both layers before mixing.
        background = self.camera(background + texture[..., None])  # (H, W, 3)
        colour = self.camera(np.broadcast_to(colour, background.shape))
        cover = self.cover(num_frames)[..., None]  # (T, H, W, 1)
        return np.rint(background + cover * (colour - background)).astype(np.uint8)


@cache
def _textures() -> np.ndarray:
    """Return the background textures, equal in all sets, (NUM_TEXTURES, H, W)."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((NUM_TEXTURES, SIZE, SIZE))
    # low-pass on the torus, so that a rolled texture has no seam
    frequency = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.fftfreq(SIZE)[None])
    smooth = np.fft.ifft2(np.fft.fft2(noise) * np.exp(-((frequency / 0.08) ** 2))).real
    smooth /= smooth.std(axis=(1, 2), keepdims=True)
    return (TEXTURE_CONTRAST * smooth).astype(np.float32)


def render_video(
    label: int, rng: np.random.Generator, classes: Sequence[MotionClass] = CLASSES
) -> np.ndarray:
    """Render a video with a scene of its class and, in some videos, a second scene of any class.

    The second scene is shorter, has the same camera, and is at the start or the end of the video.

    Args:
        label: Index into ``classes``.
        rng: Random generator.
        classes: The classes of the set.

    Returns:
        (NUM_FRAMES, H, W, 3) uint8, RGB.
    """
    scene = MotionScene.draw(label, rng, classes)
    if rng.random() >= SECOND_SCENE_PROB:
        return scene.render(NUM_FRAMES)
    num_frames = int(rng.integers(*SECOND_SCENE_FRAMES, endpoint=True))
    other = MotionScene.draw(int(rng.integers(len(classes))), rng, classes)
    parts = [
        scene.render(NUM_FRAMES - num_frames),
        replace(other, camera=scene.camera).render(num_frames),
    ]
    return np.concatenate(parts if rng.random() < 0.5 else parts[::-1])


def encode(path: Path, frames: np.ndarray, rate: int = FRAME_RATE) -> None:
    """Encode frames, (T, H, W, 3) uint8 RGB with even H and W, as H.264 in an ``.mp4`` file."""
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=rate, options=X264_OPTIONS)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = 'yuv420p'
        stream.codec_context.thread_count = 1  # videos are encoded side by side
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format='rgb24')))
        container.mux(stream.encode())


def write_motion_videos(
    root: str | Path,
    num_train: int,
    num_test: int,
    seed: int = 0,
    classes: str = 'motion',
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write ``videos/*.mp4``, ``train.txt``, ``test.txt`` and ``classes.txt`` into ``root``.

    A line of a list is a path relative to ``root`` and a label; classes are balanced. A video
    depends only on ``seed``, its split and its number. The lists are written last; a complete set
    with the same settings is kept.

    Args:
        root: Output folder, which is new or holds this set.
        num_train: Number of training videos.
        num_test: Number of test videos.
        seed: Seed of all random draws.
        classes: ``'motion'``, or ``'transfer'`` for a set that shares no path and no structure with
            it.
        on_progress: Called with the number of finished videos and the total.

    Raises:
        ValueError: ``root`` holds other files or a set of other settings.
    """
    root, kinds = Path(root), SETS[classes]
    about = dict(num_train=num_train, num_test=num_test, seed=seed, classes=classes)
    claim_folder(root, 'settings.json', about | dict(version=VERSION))
    if (root / 'test.txt').exists():
        return
    (root / 'videos').mkdir(exist_ok=True)
    videos = [
        (f'videos/{split}_{index:05d}.mp4', index % len(kinds), (seed, number, index))
        for number, (split, count) in enumerate((('train', num_train), ('test', num_test)))
        for index in range(count)
    ]

    def write(video: tuple[str, int, tuple[int, ...]]) -> None:
        name, label, key = video
        encode(root / name, render_video(label, np.random.default_rng(key), kinds))

    with ThreadPoolExecutor(usable_cores()) as pool:
        for done, _ in enumerate(pool.map(write, videos), 1):
            on_progress(done, len(videos))
    (root / 'classes.txt').write_text(''.join(f'{kind.name}\n' for kind in kinds))
    for split in ('train', 'test'):
        lines = (f'{name} {label}\n' for name, label, _ in videos if split in name)
        (root / f'{split}.txt').write_text(''.join(lines))
