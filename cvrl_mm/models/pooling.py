"""Global average pooling of whatever a backbone returns."""

import torch
from torch import Tensor


def global_average_pool(feats: Tensor | tuple[Tensor, ...]) -> Tensor:
    """Average features over time and space.

    Args:
        feats: (N, C, T, H, W), (N, C, H, W) or pooled already, (N, C); or several of these,
            as two-pathway backbones return them, whose channels are then concatenated.

    Returns:
        (N, C).
    """
    if isinstance(feats, (tuple, list)):
        return torch.cat([global_average_pool(f) for f in feats], dim=1)
    return feats.flatten(2).mean(2) if feats.ndim > 2 else feats
