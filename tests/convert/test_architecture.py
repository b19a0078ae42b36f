import pytest
import torch

from cvrl_mm.convert.architecture import conversion_of, read_depth_and_width
from cvrl_mm.models import R3DSlow


@pytest.mark.parametrize(('depth', 'width'), [(18, 0.25), (34, 0.125), (50, 0.125), (101, 0.125)])
def test_depth_and_width_of_our_networks(depth, width):
    with torch.device('meta'):
        state = R3DSlow(depth, width=width).state_dict()
    # the names of a plain ResNet: conv3 tells bottlenecks, whose convolutions are ConvModules here
    assert read_depth_and_width(state, 'conv1.conv.weight') == (depth, width)


def test_other_networks_are_named():
    with pytest.raises(ValueError, match=r'stages of \(0, 0, 0, 0\) blocks, the stem a is missing'):
        read_depth_and_width(dict(b=torch.zeros(1)), 'a')


@pytest.mark.parametrize(
    ('name', 'shape', 'command'),
    [
        ('s1.pathway0_stem.conv.weight', (8, 3, 1, 7, 7), 'slowfast'),
        ('backbone.s1.pathway0_stem.conv.weight', (8, 3, 1, 7, 7), 'slowfast'),
        ('conv1.weight', (64, 3, 7, 7), 'inflate'),
        ('module.backbone.conv1.weight', (64, 3, 7, 7), 'inflate'),
        ('layer1.0.conv1.weight', (64, 64, 1, 1), None),
        ('backbone.conv1.conv.weight', (64, 3, 5, 7, 7), None),
    ],
)
def test_foreign_weights_are_recognised(name, shape, command):
    assert conversion_of({name: torch.zeros(shape)}) == command
