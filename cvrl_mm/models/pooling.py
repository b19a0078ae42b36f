"""Global average pooling of backbone features."""

import torch
from torch import Tensor


def global_average_pool(feats: Tensor | tuple[Tensor, ...]) -> Tensor:
    """Average features over time and space.

    Args:
        feats: Features, (N, C, T, H, W) or (N, C, H, W), or already pooled features, (N, C).
            The channels of several features, as two-pathway backbones return them, are
            concatenated.

    Returns:
        Pooled features, (N, C).
    """
    if isinstance(feats, (tuple, list)):
        return torch.cat([global_average_pool(f) for f in feats], dim=1)
    return feats.flatten(2).mean(2) if feats.ndim > 2 else feats
