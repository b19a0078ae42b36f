from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from cvrl_mm.synthetic.motion_scene import (
    CLASSES,
    ORBIT_RADIUS,
    SIZE,
    TRANSFER_CLASSES,
    MotionClasses,
    MotionScene,
)

SETS = (CLASSES, TRANSFER_CLASSES)
MOTIONS = CLASSES.motions + TRANSFER_CLASSES.motions
STRUCTURES = CLASSES.structures + TRANSFER_CLASSES.structures


def scene(motion: str, structure: str = 'disc', seed: int = 0) -> MotionScene:
    classes = MotionClasses((motion,), (structure,))
    return MotionScene.draw(0, np.random.default_rng(seed), classes)


def moved(scene: MotionScene) -> np.ndarray:
    """Displacements from frame to frame, (T - 1, N, 2), the short way round the torus."""
    steps = np.diff(scene.centres(12), axis=0)
    return (steps + SIZE / 2) % SIZE - SIZE / 2


@pytest.mark.parametrize('classes', SETS)
def test_every_label_has_its_motion_and_structure(classes):
    labels = range(len(classes.names))
    scenes = [MotionScene.draw(label, np.random.default_rng(0), classes) for label in labels]
    assert [f'{s.structure}, {s.motion}' for s in scenes] == list(classes.names)


def test_the_sets_share_no_motion_and_no_structure():
    assert len(set(MOTIONS)) == len(set(STRUCTURES)) == 8


@pytest.mark.parametrize(
    ('motion', 'sign'), [('down', 1), ('up', -1), ('diagonal down', 1), ('diagonal up', -1)]
)
def test_vertical_drift_has_one_direction(motion, sign):
    for seed in range(8):
        steps = moved(scene(motion, seed=seed))
        assert (sign * steps[..., 1] > 1).all()
        assert ((steps[..., 0] == 0) == (motion in ('down', 'up'))).all()


@pytest.mark.parametrize('motion', ['horizontal', 'diagonal down', 'diagonal up'])
def test_horizontal_drift_goes_both_ways(motion):
    sides = {tuple(np.unique(np.sign(moved(scene(motion, seed=s))[..., 0]))) for s in range(8)}
    assert sides == {(-1,), (1,)}


def test_orbits_go_both_ways():
    def turn(seed: int) -> float:
        steps = moved(scene('orbit', seed=seed))[:2, 0]
        return np.sign(np.linalg.det(steps))

    assert {turn(seed) for seed in range(8)} == {-1, 1}


@pytest.mark.parametrize(('motion', 'still'), [('horizontal swing', 1), ('vertical swing', 0)])
def test_swings_move_to_and_fro_along_one_axis(motion, still):
    swinging = scene(motion)
    away = (swinging.centres(40) - swinging.anchors + SIZE / 2) % SIZE - SIZE / 2
    np.testing.assert_allclose(away[..., still], 0, atol=1e-9)
    along = away[..., 1 - still]
    assert along.max() == pytest.approx(ORBIT_RADIUS, abs=0.5)
    assert along.min() == pytest.approx(-ORBIT_RADIUS, abs=0.5)


def test_orbits_stay_at_their_radius():
    orbiting = scene('orbit')
    away = (orbiting.centres(30) - orbiting.anchors + SIZE / 2) % SIZE - SIZE / 2
    np.testing.assert_allclose(np.hypot(*np.moveaxis(away, -1, 0)), ORBIT_RADIUS)


@pytest.mark.parametrize('motion', MOTIONS)
@pytest.mark.parametrize('frame', [0, 17])
def test_positions_in_one_frame_are_uniform_under_every_motion(motion, frame):
    scenes = [scene(motion, seed=seed) for seed in range(200)]
    positions = np.concatenate([s.centres(frame + 1)[frame] for s in scenes])
    for axis in range(2):
        assert kstest(positions[:, axis] / SIZE, 'uniform').pvalue > 0.01


def test_looks_do_not_depend_on_the_class():
    first, second = (MotionScene.draw(label, np.random.default_rng(5)) for label in (0, 15))
    assert (first.palette, first.texture, first.radius) == (
        second.palette,
        second.texture,
        second.radius,
    )
    np.testing.assert_array_equal(first.anchors, second.anchors)
    np.testing.assert_array_equal(first.camera.noise, second.camera.noise)


@pytest.mark.parametrize('structure', STRUCTURES)
def test_one_object_covers_what_its_structure_says(structure):
    one = replace(scene('down', structure), anchors=np.array([[32.0, 32.0]]), speed=0, radius=6.0)
    cover = one._cover(1)[0]
    width, height = (cover.max(axis=axis).sum() for axis in (0, 1))
    expected = {
        'disc': (10.8, 10.8),
        'horizontal bar': (18, 3.96),
        'vertical bar': (3.96, 18),
        'plus': (18, 18),
        'ring': (12, 12),
        'square': (9.6, 9.6),
        'diamond': (13.6, 13.6),
        'cross': (15.5, 15.5),
    }[structure]
    assert (width, height) == pytest.approx(expected, abs=0.7)
    area = {
        'disc': np.pi * 5.4**2,
        'plus': 2 * 18 * 3.96 - 3.96**2,
        'ring': np.pi * (6**2 - 3.6**2),
        'square': 9.6**2,
        'diamond': 9.6**2,
        'cross': 2 * 18 * 3.96 - 3.96**2,
    }
    assert cover.sum() == pytest.approx(area.get(structure, 18 * 3.96), rel=0.06)


def test_objects_wrap_round_the_edges():
    corner = replace(scene('down', 'plus'), anchors=np.zeros((1, 2)), speed=0)
    centre = replace(corner, anchors=np.full((1, 2), SIZE / 2))
    rolled = np.roll(corner._cover(1), (SIZE // 2, SIZE // 2), axis=(1, 2))
    np.testing.assert_allclose(rolled, centre._cover(1), atol=1e-5)


def test_rendering_is_deterministic_and_moves():
    frames = scene('up').render(3)
    assert frames.shape == (3, SIZE, SIZE, 3)
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(frames, scene('up').render(3))
    assert np.abs(frames[0].astype(int) - frames[2]).max() > 30


@pytest.mark.parametrize('label', [-1, len(CLASSES.names)])
def test_refuses_a_label_that_is_none(label):
    with pytest.raises(ValueError, match=f'got {label}'):
        MotionScene.draw(label, np.random.default_rng(0))
