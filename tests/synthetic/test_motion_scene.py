from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from cvrl_mm.synthetic.motion_scene import (
    CLASSES,
    PALETTES,
    RADIUS,
    RELATED_PALETTE,
    SIZE,
    TRANSFER_CLASSES,
    MotionClasses,
    MotionScene,
)

SETS = (CLASSES, TRANSFER_CLASSES)
PATHS = CLASSES.paths + TRANSFER_CLASSES.paths
STRUCTURES = CLASSES.structures + TRANSFER_CLASSES.structures


def scene(path: str, structure: str = 'disc', seed: int = 0, fast: bool = False) -> MotionScene:
    classes = MotionClasses((path,), (structure,))
    return MotionScene.draw(int(fast), np.random.default_rng(seed), classes)


def moved(scene: MotionScene) -> np.ndarray:
    """Displacements from frame to frame, (T - 1, N, 2), the short way round the torus."""
    steps = np.diff(scene.centres(12), axis=0)
    return (steps + SIZE / 2) % SIZE - SIZE / 2


@pytest.mark.parametrize('classes', SETS)
def test_every_label_has_its_structure_path_and_speed(classes):
    labels = range(len(classes.names))
    scenes = [MotionScene.draw(label, np.random.default_rng(0), classes) for label in labels]
    names = [f'{s.structure}, {"slow" if s.speed < 1 else "fast"} {s.path}' for s in scenes]
    assert names == list(classes.names)
    assert len(set(names)) == 16


@pytest.mark.parametrize('classes', SETS)
def test_a_structure_leaves_two_classes_of_different_paths_and_speeds(classes):
    for structure in classes.structures:
        labels = [label for label in range(16) if classes.structure(label) == structure]
        assert len(labels) == len({classes.path(label) for label in labels}) == 2
        assert {label % 2 for label in labels} == {0, 1}


def test_the_sets_share_no_path_and_no_structure():
    assert len(set(PATHS)) == len(set(STRUCTURES)) == 16


def test_palettes_are_related_to_the_path_in_some_videos():
    drawn = [MotionScene.draw(6, np.random.default_rng(seed)).palette for seed in range(500)]
    shares = np.bincount(drawn, minlength=len(PALETTES)) / len(drawn)
    others = (1 - RELATED_PALETTE) / len(PALETTES)
    assert shares[3] == pytest.approx(RELATED_PALETTE + others, abs=0.06)
    assert np.delete(shares, 3) == pytest.approx(others, abs=0.04)


@pytest.mark.parametrize(
    ('path', 'sign'),
    [
        ('down', 1),
        ('up', -1),
        ('diagonal down', 1),
        ('diagonal up', -1),
        ('flat down', 1),
        ('flat up', -1),
        ('steep down', 1),
        ('steep up', -1),
    ],
)
def test_vertical_drift_has_one_direction(path, sign):
    for seed in range(8):
        steps = moved(scene(path, seed=seed))
        assert (sign * steps[..., 1] > 0.4).all()
        assert ((steps[..., 0] == 0) == (path in ('down', 'up'))).all()


@pytest.mark.parametrize('path', ['horizontal', 'diagonal down', 'flat up', 'steep down'])
def test_horizontal_drift_goes_both_ways(path):
    sides = {tuple(np.unique(np.sign(moved(scene(path, seed=s))[..., 0]))) for s in range(8)}
    assert sides == {(-1,), (1,)}


@pytest.mark.parametrize('path', PATHS)
def test_a_fast_class_is_faster_than_a_slow_one(path):
    slow, fast = (
        np.mean(
            [np.linalg.norm(moved(scene(path, seed=s, fast=f)), axis=-1).max() for s in range(8)]
        )
        for f in (False, True)
    )
    assert fast > 1.8 * slow


@pytest.mark.parametrize('path', ['circle', 'wide ellipse', 'tall ellipse'])
def test_circles_go_both_ways(path):
    def turn(seed: int) -> float:
        steps = moved(scene(path, seed=seed))[:2, 0]
        return np.sign(np.linalg.det(steps))

    assert {turn(seed) for seed in range(8)} == {-1, 1}


def test_a_figure_eight_crosses_its_centre():
    eight = scene('figure eight', fast=True)
    away = (eight.centres(40) - eight.anchors + SIZE / 2) % SIZE - SIZE / 2
    distance = np.linalg.norm(away, axis=-1)
    assert distance.min() < 1.5
    assert distance.max() > RADIUS


def test_a_diagonal_swing_stays_on_a_diagonal():
    swinging = scene('diagonal swing')
    away = (swinging.centres(40) - swinging.anchors + SIZE / 2) % SIZE - SIZE / 2
    np.testing.assert_allclose(np.abs(away[..., 0]), np.abs(away[..., 1]), atol=1e-9)


@pytest.mark.parametrize(('path', 'still'), [('horizontal swing', 1), ('vertical swing', 0)])
def test_swings_move_to_and_fro_along_one_axis(path, still):
    swinging = scene(path)
    away = (swinging.centres(40) - swinging.anchors + SIZE / 2) % SIZE - SIZE / 2
    np.testing.assert_allclose(away[..., still], 0, atol=1e-9)
    along = away[..., 1 - still]
    assert along.max() == pytest.approx(RADIUS, abs=0.5)
    assert along.min() == pytest.approx(-RADIUS, abs=0.5)


def test_circles_stay_at_their_radius():
    circling = scene('circle')
    away = (circling.centres(30) - circling.anchors + SIZE / 2) % SIZE - SIZE / 2
    np.testing.assert_allclose(np.hypot(*np.moveaxis(away, -1, 0)), RADIUS)


@pytest.mark.parametrize('path', PATHS)
@pytest.mark.parametrize('frame', [0, 17])
def test_positions_in_one_frame_are_uniform_on_every_path(path, frame):
    scenes = [scene(path, seed=seed) for seed in range(200)]
    positions = np.concatenate([s.centres(frame + 1)[frame] for s in scenes])
    for axis in range(2):
        assert kstest(positions[:, axis] / SIZE, 'uniform').pvalue > 0.01


def test_what_the_class_does_not_set_does_not_depend_on_it():
    first, second = (MotionScene.draw(label, np.random.default_rng(5)) for label in (0, 15))
    assert (first.texture, first.radius, first.side) == (second.texture, second.radius, second.side)
    np.testing.assert_array_equal(first.anchors, second.anchors)
    np.testing.assert_array_equal(first.camera.noise, second.camera.noise)


def test_objects_wrap_round_the_edges():
    corner = replace(scene('down', 'T'), anchors=np.zeros((1, 2)), speed=0)
    centre = replace(corner, anchors=np.full((1, 2), SIZE / 2))
    rolled = np.roll(corner._cover(1), (SIZE // 2, SIZE // 2), axis=(1, 2))
    np.testing.assert_allclose(rolled, centre._cover(1), atol=1e-5)


def test_rendering_is_deterministic_and_moves():
    frames = scene('up').render(3)
    assert frames.shape == (3, SIZE, SIZE, 3)
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(frames, scene('up').render(3))
    assert np.abs(frames[0].astype(int) - frames[2]).max() > 30


@pytest.mark.parametrize('label', [-1, 16])
def test_refuses_a_label_that_is_none(label):
    with pytest.raises(ValueError, match=f'got {label}'):
        MotionScene.draw(label, np.random.default_rng(0))
