import pytest
from torch import nn

from cvrl_mm.models import R3DSlow
from cvrl_mm.models.head_channels import check_head_channels


def test_compares_the_head_with_the_features():
    backbone = R3DSlow(depth=18, width=0.125)
    check_head_channels(backbone, 64)
    with pytest.raises(ValueError, match=r'in_channels=2048.*R3DSlow have 64.*in_channels=64'):
        check_head_channels(backbone, 2048)


def test_backbones_that_do_not_tell_their_channels_are_not_checked():
    check_head_channels(nn.Identity(), 7)
