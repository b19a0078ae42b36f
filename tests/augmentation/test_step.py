import pytest

from cvrl_mm.augmentation.step import Step, merge_steps


def steps(*values: tuple[str, float]) -> list[Step]:
    return [Step(name, (value,)) for name, value in values]


def test_adjacent_changes_of_hue_saturation_and_brightness_become_one():
    drawn = steps(('hue', 0.1), ('saturation', 1.6), ('brightness', 1.5), ('contrast', 1.4))
    assert merge_steps(drawn) == [Step('hsv', (0.1, 1.6, 1.5)), Step('contrast', (1.4,))]
    drawn = steps(('saturation', 0.5), ('contrast', 1.7), ('brightness', 0.6), ('hue', -0.2))
    assert merge_steps(drawn) == [
        Step('hsv', (0.0, 0.5, 1.0)),
        Step('contrast', (1.7,)),
        Step('hsv', (-0.2, 1.0, 0.6)),
    ]


@pytest.mark.parametrize(
    'drawn',
    [
        steps(('saturation', 3.0), ('saturation', 0.5)),  # the saturation ends at 1 in between
        steps(('brightness', 1.5), ('hue', 0.1)),  # brightness may clip
    ],
)
def test_changes_that_clip_are_not_merged(drawn: list[Step]):
    assert len(merge_steps(drawn)) == 2


def test_other_steps_stay():
    drawn = [Step('grayscale'), Step('gaussian_blur', (1.0, 23))]
    assert merge_steps(drawn) == drawn
