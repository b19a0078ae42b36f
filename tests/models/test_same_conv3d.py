import numpy as np
import pytest
import torch

from cvrl_mm.models.same_conv3d import SameConv3d


def convolve_by_loop(x, weight, stride):
    """SAME convolution of (C, T, H, W) by definition: zero outside, larger half behind."""
    kernel = weight.shape[2:]
    out_sizes = [-(-size // s) for size, s in zip(x.shape[1:], stride, strict=True)]
    out = np.zeros((weight.shape[0], *out_sizes))
    for at in np.ndindex(*out_sizes):
        for offset in np.ndindex(*kernel):
            front = [
                max((o - 1) * s + k - size, 0) // 2
                for o, s, k, size in zip(out_sizes, stride, kernel, x.shape[1:], strict=True)
            ]
            where = [a * s - f + o for a, s, f, o in zip(at, stride, front, offset, strict=True)]
            if all(0 <= w < size for w, size in zip(where, x.shape[1:], strict=True)):
                out[(slice(None), *at)] += weight[(..., *offset)] @ x[(slice(None), *where)]
    return out


@pytest.mark.parametrize('size', [(4, 6, 6), (5, 7, 6), (1, 4, 5), (3, 3, 8)])
@pytest.mark.parametrize(('kernel', 'stride'), [((5, 7, 7), (2, 2, 2)), ((1, 3, 3), (1, 2, 2))])
def test_convolution_matches_the_definition(size, kernel, stride):
    conv = SameConv3d(2, 3, kernel, stride, padding=1, bias=False).double()
    x = torch.randn(1, 2, *size, dtype=torch.float64)
    expected = convolve_by_loop(x[0].numpy(), conv.weight.detach().numpy(), stride)
    np.testing.assert_allclose(conv(x)[0].detach().numpy(), expected, atol=1e-12)
