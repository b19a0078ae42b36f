"""The classification head for linear evaluation, supervised training and fine-tuning."""

import torch
import torch.nn.functional as F
from mmaction.models import BaseHead
from mmaction.registry import MODELS
from torch import Tensor, nn

from .pooling import global_average_pool


@MODELS.register_module()
class LinearProbeHead(BaseHead):
    """Linear classifier on l2-normalised pooled features (CVRL, Sec. 4.1).

    The initialisation follows the released code: Glorot-uniform weights and zero biases. The
    loss, the accuracy and the average over test views are those of MMAction2's heads. Supervised
    training and fine-tuning use this head without normalisation and with dropout, because
    MMAction2's ``I3DHead`` computes its accuracy with numpy and fails under bfloat16.

    Args:
        num_classes: Number of classes.
        in_channels: Channels of the backbone's features, 2048 for R3D-50.
        l2_normalize: Scale the features to unit length. The paper's learning rate of 32 assumes
            this.
        dropout_ratio: Probability with which dropout zeroes an element of the features.
        kwargs: Further arguments of ``BaseHead``, such as ``average_clips``.
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
        """Compute class scores, in float32 also under mixed precision.

        Args:
            feats: Backbone features, (M, C, T, H, W) or pooled, (M, C).
            kwargs: Outputs of a neck for heads; unused.

        Returns:
            Class scores before the softmax, (M, num_classes).
        """
        x = global_average_pool(feats)
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            if self.l2_normalize:
                x = F.normalize(x, dim=1)
            return self.fc_cls(self.dropout(x))
