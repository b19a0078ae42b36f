"""Scenes whose class depends on shape and motion of the objects, not on colour or position."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from .camera import Camera

SIZE = 64  # pixels, width and height; decord 0.6 cannot open some smaller widths, such as 48


@dataclass(frozen=True)
class MotionClasses:
    """The classes of a set of videos: every pair of a motion and a structure.

    Attributes:
        motions: How the objects move.
        structures: The shape of the objects.
    """

    motions: tuple[str, ...]
    structures: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in the order of their labels, sorted by motion."""
        return tuple(f'{s}, {motion}' for motion in self.motions for s in self.structures)


CLASSES = MotionClasses(
    motions=('horizontal', 'down', 'up', 'orbit'),
    structures=('disc', 'horizontal bar', 'vertical bar', 'plus'),
)
# CLASSES has none of these motions and structures. Mirroring a video does not change its class.
TRANSFER_CLASSES = MotionClasses(
    motions=('diagonal down', 'diagonal up', 'horizontal swing', 'vertical swing'),
    structures=('ring', 'square', 'diamond', 'cross'),
)

# Few palettes, shared by all classes and both splits, so that colour does not identify a video
PALETTES = np.array(
    [  # background, objects; RGB
        [[52, 64, 84], [214, 178, 120]],
        [[98, 66, 58], [148, 204, 190]],
        [[58, 84, 62], [206, 160, 190]],
        [[84, 76, 100], [200, 206, 132]],
    ],
    dtype=np.float32,
)
NUM_TEXTURES = 3
TEXTURE_CONTRAST = 8.0  # grey levels
DRIFT = 2.3  # pixels per frame, at speed 1
ORBIT_RADIUS = 6.7  # pixels
ORBIT_RATE = 0.55  # radians per frame, at speed 1
DIRECTIONS = {  # of drifts: x and y in units of DRIFT
    'horizontal': (1, 0),
    'down': (0, 1),
    'up': (0, -1),
    'diagonal down': (0.7, 0.7),
    'diagonal up': (0.7, -0.7),
}
CIRCLES = {'orbit': (1, 1), 'horizontal swing': (1, 0), 'vertical swing': (0, 1)}  # x and y radii


@dataclass(frozen=True)
class MotionScene:
    """All random parameters of one video.

    Attributes:
        motion: A motion of the video's classes.
        structure: A structure of the video's classes.
        anchors: Start of each object or centre of its orbit or swing, (N, 2), x and y in pixels.
        phases: Start angle of each object on its orbit or swing, (N,), radians.
        radius: Radius of every object, pixels.
        speed: Factor of the speed of the motion.
        side: 1, or -1 for the mirrored motion.
        palette: Index into ``PALETTES``.
        texture: Index of one of the ``NUM_TEXTURES`` backgrounds.
        texture_shift: Shift of the texture, (y, x) in pixels, wrapped around the edges.
        camera: The camera.
    """

    motion: str
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
        """Draw a scene of class ``label``; all other parameters are independent of the class.

        Args:
            label: Index into the names of ``classes``.
            rng: Random generator.
            classes: The classes of the set.
        """
        if not 0 <= label < len(classes.names):
            raise ValueError(f'label must be in 0 … {len(classes.names) - 1}, got {label}.')
        count = rng.integers(6, 10)
        motion = classes.motions[label // len(classes.structures)]
        turned = rng.random() < 0.5
        speed = rng.uniform(0.8, 1.3)
        return cls(
            motion=motion,
            structure=classes.structures[label % len(classes.structures)],
            anchors=rng.uniform(0, SIZE, (count, 2)),
            phases=rng.uniform(0, 2 * np.pi, count),
            radius=rng.uniform(6.5, 8.5),
            speed=speed,
            # Down and up are two classes, but left and right are one: a flip keeps the class.
            side=-1 if turned else 1,
            palette=int(rng.integers(len(PALETTES))),
            texture=int(rng.integers(NUM_TEXTURES)),
            texture_shift=tuple(int(shift) for shift in rng.integers(SIZE, size=2)),
            camera=Camera.draw(rng, SIZE),
        )

    def centres(self, num_frames: int) -> np.ndarray:
        """Compute the object positions, (T, N, 2), x and y in pixels, wrapped at the edges."""
        frame = np.arange(num_frames)[:, None]  # (T, 1)
        if self.motion in CIRCLES:
            angle = self.phases + self.speed * ORBIT_RATE * frame  # (T, N)
            offset = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
            offset = ORBIT_RADIUS * np.array(CIRCLES[self.motion]) * offset
        else:
            direction = np.array(DIRECTIONS[self.motion])
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
        apart = np.abs((pixel - centres + SIZE / 2) % SIZE - SIZE / 2)  # on the torus
        x, y = apart[:, :, 0, None, :], apart[:, :, 1, :, None]  # (T, N, 1, W), (T, N, H, 1)
        nearest = _distance(self.structure, x, y, self.radius)  # (T, H, W)
        return np.clip(0.5 - nearest, 0, 1)


def _distance(structure: str, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    """Compute the signed distance of each pixel to the nearest outline, negative inside.

    Args:
        structure: A structure of ``CLASSES`` or ``TRANSFER_CLASSES``.
        x: Horizontal distance to each object's centre, (T, N, 1, W).
        y: Vertical distance to each object's centre, (T, N, H, 1).
        radius: Radius of every object.

    Returns:
        (T, H, W).
    """
    if structure == 'disc':
        return np.sqrt((x * x + y * y).min(axis=1)) - 0.9 * radius
    if structure == 'ring':
        return (np.abs(np.sqrt(x * x + y * y) - 0.8 * radius) - 0.2 * radius).min(axis=1)
    if structure == 'square':
        return np.maximum(x, y).min(axis=1) - 0.8 * radius
    if structure == 'diamond':
        return (x + y).min(axis=1) / np.sqrt(2) - 0.8 * radius
    half_length, half_width = 1.5 * radius, 0.33 * radius
    if structure == 'cross':  # a plus turned by 45 degrees
        x, y = (x + y) / np.sqrt(2), np.abs(x - y) / np.sqrt(2)
    horizontal, vertical = (half_length, half_width), (half_width, half_length)
    bars = {
        'horizontal bar': [horizontal],
        'vertical bar': [vertical],
        'plus': [horizontal, vertical],
        'cross': [horizontal, vertical],
    }[structure]
    return np.minimum.reduce([np.maximum(x - w, y - h).min(axis=1) for w, h in bars])


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
