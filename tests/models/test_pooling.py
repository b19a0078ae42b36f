import torch

from cvrl_mm.models.pooling import global_average_pool


def test_averages_over_time_and_space():
    feats = torch.randn(2, 5, 3, 4, 4)
    torch.testing.assert_close(global_average_pool(feats), feats.mean((2, 3, 4)))


def test_leaves_pooled_features_and_joins_pathways():
    slow, fast = torch.randn(2, 5, 3, 4, 4), torch.randn(2, 6)
    pooled = global_average_pool((slow, fast))
    torch.testing.assert_close(pooled, torch.cat([slow.mean((2, 3, 4)), fast], 1))
