"""The classifier of linear evaluation, and of training all layers."""

import torch
import torch.nn.functional as F
from mmaction.models import BaseHead
from mmaction.registry import MODELS
from torch import Tensor, nn

from .pooling import global_average_pool


@MODELS.register_module()
class LinearProbeHead(BaseHead):
    """One linear layer on the l2-normalised pooled feature (CVRL, Sec. 4.1).

    Glorot-uniform weights and a bias of zero are the released code's. Loss, accuracy and the
    average over test views are those of MMAction2's heads. Supervised training and fine-tuning
    have it without normalisation and with dropout: MMAction2's ``I3DHead`` computes its
    accuracy through numpy and fails under bfloat16.

    Args:
        num_classes: Classes of the data set.
        in_channels: Channels of the backbone's features, 2048 for R3D-50.
        l2_normalize: Bring the feature to unit length; the paper's learning rate of 32 is for
            features of that length.
        dropout_ratio: Share of the feature that training leaves out.
        kwargs: What ``BaseHead`` takes, such as ``average_clips``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        l2_normalize: bool = True,
        dropout_ratio: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.l2_normalize = l2_normalize
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def init_weights(self) -> None:
        """Draw Glorot-uniform weights and set the bias to zero."""
        nn.init.xavier_uniform_(self.fc_cls.weight)
        nn.init.zeros_(self.fc_cls.bias)
        super().init_weights()

    def forward(self, feats: Tensor | tuple[Tensor, ...], **kwargs: object) -> Tensor:
        """Score classes, in float32 also under mixed precision.

        Args:
            feats: Backbone features, (M, C, T, H, W) or pooled, (M, C).
            kwargs: What a neck leaves for heads; unused.

        Returns:
            Class scores before the softmax, (M, num_classes).
        """
        x = global_average_pool(feats)
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            if self.l2_normalize:
                x = F.normalize(x, dim=1)
            return self.fc_cls(self.dropout(x))
