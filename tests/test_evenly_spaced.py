import pytest

from cvrl_mm.evenly_spaced import evenly_spaced


@pytest.mark.parametrize(
    ('length', 'at_most', 'expected'),
    [
        (0, 3, []),
        (2, 5, [0, 1]),
        (9, 1, [0]),
        (9, 3, [0, 4, 8]),
        (10, 4, [0, 3, 6, 9]),
        (4, 3, [0, 2, 3]),
    ],
)
def test_evenly_spaced(length: int, at_most: int, expected: list[int]):
    assert evenly_spaced(length, at_most) == expected
