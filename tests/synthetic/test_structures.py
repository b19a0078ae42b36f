import numpy as np
import pytest

from cvrl_mm.synthetic.motion_scene import CLASSES, TRANSFER_CLASSES
from cvrl_mm.synthetic.structures import coverage


@pytest.mark.parametrize('structure', CLASSES.structures + TRANSFER_CLASSES.structures)
def test_one_object_covers_what_its_structure_says(structure):
    offset = np.arange(64, dtype=np.float32) - 32
    cover = coverage(structure, offset.reshape(1, 1, 1, -1), offset.reshape(1, 1, -1, 1), 6.0)[0]
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
        'wide oval': (15.6, 7.2),
        'tall oval': (7.2, 15.6),
        'frame': (12, 12),
        'hollow diamond': (17, 17),
        'T': (13.2, 13.4),
        'H': (13.56, 13.2),
        'two bars': (13.2, 7.92),
        'two columns': (7.92, 13.2),
    }[structure]
    assert (width, height) == pytest.approx(expected, abs=0.7)
    area = {
        'disc': np.pi * 5.4**2,
        'plus': 2 * 18 * 3.96 - 3.96**2,
        'ring': np.pi * (6**2 - 3.6**2),
        'wide oval': np.pi * 7.8 * 3.6,
        'tall oval': np.pi * 7.8 * 3.6,
        'frame': 12**2 - 7.2**2,
        'hollow diamond': 12**2 - 7.2**2,
        'T': (13.2 + 9.42) * 3.96,
        'H': 2 * 13.2 * 3.96 + 9.6 * 3.96 - 2 * 1.98 * 3.96,
        'two bars': 2 * 13.2 * 3.96,
        'two columns': 2 * 13.2 * 3.96,
        'square': 9.6**2,
        'diamond': 9.6**2,
        'cross': 2 * 18 * 3.96 - 3.96**2,
    }
    assert cover.sum() == pytest.approx(area.get(structure, 18 * 3.96), rel=0.06)
