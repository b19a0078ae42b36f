"""Scenes whose class is the motion of the objects; their shape and colours are hints of it."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from .camera import Camera
from .structures import coverage

SIZE = 64  # pixels, width and height; decord 0.6 cannot open some smaller widths, such as 48


@dataclass(frozen=True)
class MotionClasses:
    """The classes of a set of videos: every path at two speeds.

    Each class has one structure, and each structure occurs in two classes of different paths.

    Attributes:
        paths: How the objects move.
        structures: Shapes of the objects, as many as paths, a power of two.
    """

    paths: tuple[str, ...]
    structures: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in the order of their labels, sorted by path."""
        labels = range(2 * len(self.paths))
        return tuple(
            f'{self.structure(label)}, {("slow", "fast")[label % 2]} {self.path(label)}'
            for label in labels
        )

    def path(self, label: int) -> str:
        """Return the path of a class; even labels are slow and odd ones fast."""
        return self.paths[label // 2]

    def structure(self, label: int) -> str:
        """Return the shape of the objects of a class."""
        return self.structures[(label + label // 2) % len(self.structures)]


CLASSES = MotionClasses(
    paths=(
        'horizontal',
        'down',
        'up',
        'diagonal down',
        'diagonal up',
        'circle',
        'horizontal swing',
        'vertical swing',
    ),
    structures=(
        'disc',
        'horizontal bar',
        'vertical bar',
        'plus',
        'ring',
        'square',
        'diamond',
        'cross',
    ),
)
# CLASSES has none of these paths and structures. Mirroring a video does not change its class.
TRANSFER_CLASSES = MotionClasses(
    paths=(
        'flat down',
        'flat up',
        'steep down',
        'steep up',
        'wide ellipse',
        'tall ellipse',
        'diagonal swing',
        'figure eight',
    ),
    structures=(
        'wide oval',
        'tall oval',
        'frame',
        'hollow diamond',
        'T',
        'H',
        'two bars',
        'two columns',
    ),
)

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
RADIUS = 6.7  # of circles and swings, pixels
RATE = 0.55  # of circles and swings, radians per frame, at speed 1
DRIFTS = {  # x and y in units of DRIFT
    'horizontal': (1, 0),
    'down': (0, 1),
    'up': (0, -1),
    'diagonal down': (0.7, 0.7),
    'diagonal up': (0.7, -0.7),
    'flat down': (0.92, 0.38),
    'flat up': (0.92, -0.38),
    'steep down': (0.38, 0.92),
    'steep up': (0.38, -0.92),
}
# Radii of closed paths, x and y, in units of RADIUS: x follows the cosine, y the sine
CLOSED = {
    'circle': (1, 1),
    'horizontal swing': (1, 0),
    'vertical swing': (0, 1),
    'wide ellipse': (1, 0.5),
    'tall ellipse': (0.5, 1),
    'diagonal swing': (0.7, 0.7),
    'figure eight': (1, 1),
}


@dataclass(frozen=True)
class MotionScene:
    """All random parameters of one video.

    Attributes:
        path: A path of the video's classes.
        structure: A structure of the video's classes.
        anchors: Start of each object or centre of its closed path, (N, 2), x and y in pixels.
        phases: Start angle of each object on its closed path, (N,), radians.
        radius: Radius of every object, pixels.
        speed: Factor of the speed of the motion.
        side: 1, or -1 for the mirrored motion.
        palette: Index into ``PALETTES``.
        texture: Index of one of the ``NUM_TEXTURES`` backgrounds.
        texture_shift: Shift of the texture, (y, x) in pixels, wrapped around the edges.
        camera: The camera.
    """

    path: str
    structure: str
    anchors: np.ndarray
    phases: np.ndarray
    radius: float
    speed: float
    side: int
    palette: int
    texture: int
    texture_shift: tuple[int, ...]
    camera: Camera

    @classmethod
    def draw(
        cls, label: int, rng: np.random.Generator, classes: MotionClasses = CLASSES
    ) -> 'MotionScene':
        """Draw a scene of class ``label``.

        The class sets the path, the speed within ``SPEED_RANGE``, the structure and, with
        probability ``RELATED_PALETTE``, the palette; else it is any palette. The rest is
        independent of the class.

        Args:
            label: Index into the names of ``classes``.
            rng: Random generator.
            classes: The classes of the set.
        """
        if not 0 <= label < len(classes.names):
            raise ValueError(f'label must be in 0 … {len(classes.names) - 1}, got {label}.')
        count = rng.integers(6, 10)
        related = rng.random() < RELATED_PALETTE
        palette = int(rng.integers(len(PALETTES)))
        return cls(
            path=classes.path(label),
            structure=classes.structure(label),
            anchors=rng.uniform(0, SIZE, (count, 2)),
            phases=rng.uniform(0, 2 * np.pi, count),
            radius=rng.uniform(6.5, 8.5),
            speed=SPEEDS[label % 2] * rng.uniform(*SPEED_RANGE),
            # Down and up are two classes, but left and right are one: a flip keeps the class.
            side=-1 if rng.random() < 0.5 else 1,
            palette=label // 2 if related else palette,
            texture=int(rng.integers(NUM_TEXTURES)),
            texture_shift=tuple(int(shift) for shift in rng.integers(SIZE, size=2)),
            camera=Camera.draw(rng, SIZE),
        )

    def centres(self, num_frames: int) -> np.ndarray:
        """Compute the object positions, (T, N, 2), x and y in pixels, wrapped at the edges."""
        frame = np.arange(num_frames)[:, None]  # (T, 1)
        if self.path in CLOSED:
            angle = self.phases + self.speed * RATE * frame  # (T, N)
            along_x, along_y = np.cos(angle), np.sin(angle)
            if self.path == 'diagonal swing':
                along_y = along_x
            if self.path == 'figure eight':
                along_y = np.sin(2 * angle)
            offset = RADIUS * np.array(CLOSED[self.path]) * np.stack([along_x, along_y], axis=-1)
        else:
            direction = np.array(DRIFTS[self.path])
            offset = (self.speed * DRIFT * frame * direction)[:, None]  # (T, 1, 2)
        return (self.anchors + offset * (self.side, 1)) % SIZE

    def render(self, num_frames: int) -> np.ndarray:
        """Render the frames.

        Returns:
            (T, H, W, 3) uint8, RGB.
        """
        background, colour = PALETTES[self.palette]
        texture = np.roll(_textures()[self.texture], self.texture_shift, axis=(0, 1))
        # The camera acts on single pixels, so it can be applied to both layers before mixing.
        background = self.camera.apply(background + texture[..., None])  # (H, W, 3)
        colour = self.camera.apply(np.broadcast_to(colour, background.shape))
        cover = self._cover(num_frames)[..., None]  # (T, H, W, 1)
        return np.rint(background + cover * (colour - background)).astype(np.uint8)

    def _cover(self, num_frames: int) -> np.ndarray:
        """Compute the share of each pixel that objects cover, (T, H, W), 0 to 1, anti-aliased."""
        pixel = np.arange(SIZE, dtype=np.float32)
        centres = self.centres(num_frames).astype(np.float32)[..., None]  # (T, N, 2, 1)
        apart = (pixel - centres + SIZE / 2) % SIZE - SIZE / 2  # on the torus
        x, y = apart[:, :, 0, None, :], apart[:, :, 1, :, None]  # (T, N, 1, W), (T, N, H, 1)
        return coverage(self.structure, x, y, self.radius)


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
