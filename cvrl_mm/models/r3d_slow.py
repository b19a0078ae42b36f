"""The video encoder of CVRL."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from mmaction.models import ResNet3dSlowOnly
from mmaction.registry import MODELS
from mmengine.model import initialize
from torch import Tensor, nn

from .pretrained import check_pretrained
from .same_conv3d import SameConv3d
from .same_max_pool3d import SameMaxPool3d

# The standard deviation of a standard normal that is cut off at -2 and 2.
TRUNCATED_STD = 0.87962566103423978


@MODELS.register_module()
class R3DSlow(ResNet3dSlowOnly):
    """3D ResNet of CVRL (Section 3.2, Table 1): a slow pathway with a striding 5x7x7 stem.

    The stem halves time once; after it all stages keep the temporal resolution, and only
    stages 4 and 5 have temporal kernels of 3. The names in its state dict are those of a stock
    ``ResNet3dSlowOnly`` with the same stem, so weights load both ways.

    Args:
        depth: 18, 34, 50, 101 or 152. The paper has 50, 101 and 152; the two with basic blocks
            have 3x3x3 kernels in stages 4 and 5, as in MMAction2.
        width: Multiplies all channels, 0.125 to 4 in steps that keep the stem's 64 whole.
        padding: 'symmetric' pads as torch does. 'tf_same' pads as the released code does, which
            its converted weights need: TensorFlow puts one element less in front where stride 2
            meets an even size.
        conv1_kernel: Stem kernel (T, H, W).
        conv1_stride_t: Temporal stride of the stem.
        zero_init_residual: Start each block's last batch norm at 0, which the released code
            does not.
        channels_last: Keep weights and activations with the channels innermost. The same
            weights give the same results up to rounding; which is faster depends on the device
            and the precision (``tools/benchmarks/train_step.py``).
        **kwargs: What ``ResNet3dSlowOnly`` takes: ``norm_cfg``, ``norm_eval``,
            ``frozen_stages``, ``out_indices``, ``with_cp``, ``init_cfg``, …

    Raises:
        ValueError: ``depth``, ``width`` or ``padding`` is not one of the above.
    """

    paddings = ('symmetric', 'tf_same')
    maxpool: nn.MaxPool3d

    def __init__(
        self,
        depth: int = 50,
        width: float = 1,
        padding: str = 'symmetric',
        conv1_kernel: Sequence[int] = (5, 7, 7),
        conv1_stride_t: int = 2,
        zero_init_residual: bool = False,
        channels_last: bool = False,
        **kwargs: Any,
    ) -> None:
        self._check(depth, width, padding, kwargs)
        if padding == 'tf_same':
            kwargs['conv_cfg'] = dict(type=SameConv3d)
        super().__init__(
            depth=depth,
            base_channels=int(64 * width),
            conv1_kernel=conv1_kernel,
            conv1_stride_t=conv1_stride_t,
            zero_init_residual=zero_init_residual,
            **kwargs,
        )
        if padding == 'tf_same':
            self.maxpool = SameMaxPool3d(self.maxpool.kernel_size, self.maxpool.stride)
        self.width = width
        self.padding = padding
        self.channels_last = channels_last
        if channels_last:
            self.to(memory_format=torch.channels_last_3d)
        self._freeze_stages()  # the optimiser and the data-parallel wrapper come before train()

    @property
    def out_channels(self) -> int:
        """Channels of the last stage: 2048 for R3D-50, what a pooled feature is long."""
        return self.feat_dim

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Encode clips.

        Args:
            x: Clips, (N, 3, T, H, W).

        Returns:
            Features of the stages in ``out_indices``, a tuple if there are several. Of the last
            stage: (N, out_channels, ceil(T/2), ceil(H/32), ceil(W/32)).

        Raises:
            ValueError: ``x`` does not have this shape or has no frames.
        """
        if x.ndim != 5 or x.shape[1] != self.in_channels or 0 in x.shape[2:]:
            raise ValueError(
                f'R3DSlow takes clips as (N, {self.in_channels}, T, H, W) with at least one '
                f'frame, got {tuple(x.shape)}. Put FormatShape(input_format="NCTHW") into the '
                f'pipeline; a recognizer folds the clips of a video into the batch.'
            )
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last_3d)
        return super().forward(x)

    def train(self, mode: bool = True) -> 'R3DSlow':
        """Set training mode; frozen stages, and all batch norm under ``norm_eval``, stay out."""
        super().train(mode)
        return self

    def init_weights(self, pretrained: str | None = None) -> None:
        """Initialise as the released code does, then load what ``init_cfg`` names.

        Convolutions: a normal distribution cut at two standard deviations and scaled to a
        standard deviation of 1/sqrt(fan_in), which is what TensorFlow's ``VarianceScaling``
        gives. Batch norm: identity.

        Args:
            pretrained: A checkpoint, as MMAction2's backbones take it; overrides
                ``self.pretrained``.

        Raises:
            RuntimeError: the checkpoint of an ``init_cfg`` of type ``Pretrained`` does not hold
                exactly this network.
        """
        super().init_weights(pretrained)
        if self.pretrained is None:
            for module in self.modules():
                if isinstance(module, nn.Conv3d):
                    truncated_normal_(module.weight)
        if self.init_cfg:
            for cfg in self.init_cfg if isinstance(self.init_cfg, list) else [self.init_cfg]:
                if cfg['type'] == 'Pretrained':
                    check_pretrained(self, cfg['checkpoint'], cfg.get('prefix'))
            initialize(self, self.init_cfg)

    @staticmethod
    def _check(depth: int, width: float, padding: str, kwargs: dict) -> None:
        if depth not in ResNet3dSlowOnly.arch_settings:
            depths = ', '.join(map(str, ResNet3dSlowOnly.arch_settings))
            raise ValueError(f'R3DSlow has depths {depths}; got depth={depth}.')
        if not 0.125 <= width <= 4 or 64 * width % 1:
            raise ValueError(
                f'width must lie in 0.125 ... 4 and keep the 64 channels of the stem a whole '
                f'number, got width={width}; take 0.125, 0.25, 0.5, 1, 2 or 4.'
            )
        if padding not in R3DSlow.paddings:
            raise ValueError(f'padding must be one of {R3DSlow.paddings}, got {padding!r}.')
        if padding == 'tf_same' and 'conv_cfg' in kwargs:
            raise ValueError(
                f"padding='tf_same' brings its own convolution; got conv_cfg="
                f'{kwargs["conv_cfg"]} as well. Leave one of them out.'
            )


def truncated_normal_(weight: Tensor) -> Tensor:
    """Fill a kernel (out, in, …) from the truncated normal with deviation 1/sqrt(fan_in)."""
    fan_in = math.prod(weight.shape[1:])
    uncut_std = 1 / math.sqrt(fan_in) / TRUNCATED_STD
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, std=uncut_std, a=-2 * uncut_std, b=2 * uncut_std)
