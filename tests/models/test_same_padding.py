import pytest

from cvrl_mm.models.same_padding import same_padding


@pytest.mark.parametrize(
    ('size', 'kernel', 'stride', 'expected'),
    [
        (16, 5, 2, (1, 2)),  # stem, time
        (10, 5, 2, (1, 2)),
        (9, 5, 2, (2, 2)),
        (224, 7, 2, (2, 3)),  # stem, space
        (57, 7, 2, (3, 3)),
        (56, 3, 2, (0, 1)),  # first block of a stage
        (75, 3, 2, (1, 1)),
        (56, 3, 1, (1, 1)),
        (56, 1, 2, (0, 0)),  # shortcut
        (1, 5, 2, (2, 2)),
    ],
)
def test_padding_is_that_of_tensorflow(size, kernel, stride, expected):
    assert same_padding([size], [kernel], [stride], [1]) == [expected]


def test_each_axis_has_its_own_kernel_stride_and_dilation():
    pads = same_padding((16, 56, 9), (5, 3, 3), (2, 1, 1), (1, 1, 4))
    assert pads == [(1, 2), (1, 1), (4, 4)]
