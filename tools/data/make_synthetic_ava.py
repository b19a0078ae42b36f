"""Write a small data set in the format of AVA: the motion of a figure is its action.

All figures look the same and stand anywhere in their half of the frame, so that a single frame does
not reveal the action.

Example:
    python tools/data/make_synthetic_ava.py data/synthetic_ava
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from cvrl_cli import make_parser
from cvrl_mm.detection.annotations import save_proposals
from cvrl_mm.runtime import plain_errors
from cvrl_mm.synthetic.motion import encode

# One action of each of the three groups for which MMAction2 reports a mean, with the axes of motion
ACTIONS = {12: ('sway', (1, 0)), 17: ('bounce', (0, 1)), 64: ('turn', (1, 1))}
SIZE = 64  # pixels
FPS, SECONDS, START = 30, 4, 900
KEY_SECONDS = range(START + 1, START + SECONDS)
FIGURE, REACH = np.array([18, 28]), 3  # width and height, and amplitude of the motion, in pixels


@dataclass
class Figure:
    """A moving figure.

    Attributes:
        action: Number of the action, a key of ``ACTIONS``.
        home: Centre of the motion, x and y in pixels.
        turns: Periods per second, negative for the opposite direction.
        phase: Phase of the motion at the first frame, in radians.
        colour: Colour in RGB.
    """

    action: int
    home: np.ndarray
    turns: float
    phase: float
    colour: tuple[float, float, float]

    @staticmethod
    def draw(rng: np.random.Generator, half: int) -> 'Figure':
        """Draw a figure in the left (0) or right (1) half of the frame."""
        room = FIGURE[1] / 2 + REACH
        action = int(rng.choice(list(ACTIONS)))
        home = np.array(
            [(half + 0.5) * SIZE / 2 + rng.uniform(-3, 3), rng.uniform(room, SIZE - room)]
        )
        turns = rng.uniform(1.2, 1.8) * rng.choice([-1, 1])
        return Figure(
            action, home, turns, rng.uniform(0, 2 * np.pi), tuple(rng.uniform(170, 255, 3).tolist())
        )

    def centre(self, frame: int) -> np.ndarray:
        """Return the centre at a frame, x and y in pixels."""
        angle = 2 * np.pi * self.turns * frame / FPS + self.phase
        axes = np.array(ACTIONS[self.action][1])
        return self.home + REACH * axes * [np.cos(angle), np.sin(angle)]

    def box(self, frame: int) -> np.ndarray:
        """Return the box at a frame, as fractions of the frame, (4,)."""
        centre = self.centre(frame)
        return np.concatenate([centre - FIGURE / 2, centre + FIGURE / 2]).clip(0, SIZE) / SIZE


def write_synthetic_ava(root: Path, num_train: int = 64, num_val: int = 16, seed: int = 0) -> None:
    """Write movies as frames and as videos, with csv files, label map and proposals.

    Args:
        root: Gets the new subfolders annotations/, rawframes/ and videos/.
        num_train: Number of training movies, named train_0 and so on.
        num_val: Number of validation movies, named val_0 and so on.
        seed: Seed of all draws.
    """
    rng = np.random.default_rng(seed)
    for name in ('annotations', 'rawframes', 'videos'):
        (root / name).mkdir(parents=True)
    annotations = root / 'annotations'
    labels = [f'item {{\n  name: "{name}"\n  id: {i}\n}}\n' for i, (name, _) in ACTIONS.items()]
    (annotations / 'actions.pbtxt').write_text(''.join(labels))
    for split, count in (('train', num_train), ('val', num_val)):
        rows, proposals = [], {}
        for movie in (f'{split}_{i}' for i in range(count)):
            figures = [Figure.draw(rng, half) for half in (0, 1)]
            write_movie(root, movie, render(rng, figures))
            for second in KEY_SECONDS:
                boxes = np.array([f.box((second - START) * FPS) for f in figures])
                for person, (figure, box) in enumerate(zip(figures, boxes, strict=True)):
                    corners = ','.join(f'{x:.3f}' for x in box)
                    rows.append(f'{movie},{second:04d},{corners},{figure.action},{person}')
                proposals[f'{movie},{second:04d}'] = draw_detections(rng, boxes)
        (annotations / f'{split}.csv').write_text('\n'.join(rows) + '\n')
        (annotations / f'{split}_excluded.csv').write_text(f'{split}_0,{KEY_SECONDS[-1]:04d}\n')
        save_proposals(proposals, annotations / f'{split}_proposals.pkl')


def draw_detections(rng: np.random.Generator, boxes: np.ndarray) -> np.ndarray:
    """Draw boxes as of a person detector, and a false one with a low score, (K + 1, 5)."""
    found = (boxes + rng.normal(0, 0.5 / SIZE, boxes.shape)).clip(0, 1)
    return np.vstack([np.c_[found, rng.uniform(0.95, 1, len(found))], [0.3, 0.4, 0.7, 0.6, 0.2]])


def render(rng: np.random.Generator, figures: list[Figure]) -> np.ndarray:
    """Render all frames of a movie, (T, SIZE, SIZE, 3) RGB uint8."""
    wall = cv2.GaussianBlur(rng.uniform(0, 255, (SIZE, SIZE, 3)), (0, 0), 4)
    wall = 90 + 2 * (wall - wall.mean())
    frames = []
    for frame in range(SECONDS * FPS):
        image = (wall + rng.normal(0, 3, wall.shape)).clip(0, 255).astype(np.uint8)
        for figure in figures:
            x, y = figure.centre(frame).round().astype(int).tolist()
            cv2.circle(image, (x, y - 9), 4, figure.colour, -1)
            cv2.ellipse(image, (x, y + 1), (8, 7), 0, 0, 360, figure.colour, -1)
            for side in (-4, 4):
                cv2.line(image, (x + side, y + 4), (x + side, y + 12), figure.colour, 2)
        frames.append(image)
    return np.stack(frames)


def write_movie(root: Path, movie: str, frames: np.ndarray) -> None:
    """Write the frames of a movie as image files and as a video file."""
    folder = root / 'rawframes' / movie
    folder.mkdir()
    for number, frame in enumerate(frames, 1):
        Image.fromarray(frame).save(folder / f'img_{number:05}.jpg', quality=95)
    encode(root / 'videos' / f'{movie}.mp4', frames, FPS)


@plain_errors()
def main() -> None:
    """Parse the arguments and write the data set."""
    parser = make_parser(__doc__)
    parser.add_argument('root', type=Path, help='new folder to write to')
    root = parser.parse_args().root
    write_synthetic_ava(root)
    print(f'{root}: 64 training and 16 validation movies')


if __name__ == '__main__':
    main()
