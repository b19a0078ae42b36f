"""The video encoder of CVRL."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from mmaction.models import ResNet3dSlowOnly
from mmaction.registry import MODELS
from mmengine.model import initialize
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.modules.utils import _triple
from torch.serialization import safe_globals

from ..text import type_name
from .compiled import compiled_on_gpu
from .norm import keep_narrow, keep_statistics, recomputed, trace_sync_norms
from .weights import STAND_INS, check_pretrained

# Standard deviation of a standard normal distribution truncated at -2 and 2.
TRUNCATED_STD = 0.87962566103423978


@MODELS.register_module()
class R3DSlow(ResNet3dSlowOnly):
    """3D ResNet of CVRL (Sec. 3.2, Table 1): a slow pathway with a strided 5x7x7 stem.

    The stem halves the temporal resolution, which all stages then keep. Only stages 4 and 5
    (``layer3`` and ``layer4``) have temporal kernels, of length 3. The state dict has the keys
    of a stock ``ResNet3dSlowOnly`` with the same stem, so that weights load in both directions.

    Args:
        depth: 18, 34, 50, 101 or 152. The paper uses 50, 101 and 152. Depths 18 and 34 use
            basic blocks, with 3x3x3 kernels in stages 4 and 5, as in MMAction2.
        width: Multiplies the number of channels of every layer. From 0.125 to 4; 64 * width
            must be a whole number.
        padding: ``'symmetric'`` pads as PyTorch does. ``'tf_same'`` pads as the released code
            does, which is required for weights converted from it: if the stride is 2 and the
            size is even, TensorFlow pads one element less at the start.
        conv1_kernel: Kernel of the stem, (T, H, W).
        conv1_stride_t: Temporal stride of the stem.
        zero_init_residual: Initialise the last batch norm of each block to zero. The released
            code does not.
        channels_last: Store weights and activations in ``torch.channels_last_3d``. The results
            are equal up to rounding; which layout is faster depends on the device and the
            precision. By default, the layout of the clips is kept.
        recompute: Stages of which activations are recomputed in the backward pass to save memory,
            and how: ``dict(layer1='last', layer2=2)``. The results and the running statistics of
            batch norm do not change.

            - ``'last'``: batch norms, ReLUs and the convolutions that widen their input. These are
              the last one of each bottleneck block and its projection shortcut, with most of the
              channels and few operations.
            - A number: everything, in groups of so many blocks; a number above the length of the
              stage selects the whole stage. ``stem=1`` means the first convolution and the max
              pooling.

            Statistics over all ranks are always kept.
        with_cp: Recompute all stages except the stem, one block at a time; replaces
            ``recompute``.
        compiled: Compile the training pass on a GPU with ``torch.compile``, as one graph for one
            shape of batches. If this fails on one rank, all run eagerly; so do other shapes,
            evaluation and PyTorch before 2.11. The results are equal up to rounding.
        **kwargs: Further arguments of ``ResNet3dSlowOnly``: ``norm_cfg``, ``norm_eval``,
            ``frozen_stages``, ``out_indices``, ``init_cfg``, …

    Raises:
        ValueError: An argument has a value other than the above.
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
        recompute: Mapping[str, int | str] | None = None,
        with_cp: bool = False,
        compiled: bool = True,
        **kwargs: Any,
    ) -> None:
        self._check(width, padding, kwargs)
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
        pool = self.maxpool
        self.maxpool = FrameMaxPool(
            pool.kernel_size, pool.stride, pool.padding, ceil_mode=padding == 'tf_same'
        )
        self.width = width
        self.padding = padding
        self.channels_last = channels_last
        self.compiled = compiled
        self.recompute = dict.fromkeys(self.res_layers, 1) if with_cp else dict(recompute or {})
        self._check_recompute()
        if channels_last:
            self.to(memory_format=torch.channels_last_3d)
        self._freeze_stages()  # not only in train(): the optimiser and DDP read requires_grad

    @property
    def out_channels(self) -> int:
        """Length of a pooled feature: the channels of all ``out_indices``, 2048 for R3D-50."""
        stem = self.base_channels * self.block.expansion
        return sum(stem * 2**i for i in self.out_indices)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Encode clips.

        Args:
            x: Clips, (N, 3, T, H, W).

        Returns:
            Features of the stages in ``out_indices``; a tuple if there are several. The last
            stage gives (N, out_channels, ceil(T/2), ceil(H/32), ceil(W/32)).

        Raises:
            ValueError: ``x`` has a different shape or no frames.
        """
        if x.ndim != 5 or x.shape[1] != self.in_channels or 0 in x.shape[2:]:
            raise ValueError(
                f'R3DSlow takes clips as (N, {self.in_channels}, T, H, W) with at least one '
                f'frame, got {tuple(x.shape)}. Put FormatShape(input_format="NCTHW") into the '
                f'pipeline; a recognizer folds the clips of a video into the batch.'
            )
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last_3d)
        trains = self.training and torch.is_grad_enabled()
        if self.compiled and trains and any(p.requires_grad for p in self.parameters()):
            return self._encode_compiled(x)
        return self._encode(x)

    def _encode(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        if 'stem' in self.recompute and torch.is_grad_enabled():
            x = recomputed(self._stem, x, self.conv1, keep_statistics)
        else:
            x = self._stem(x)
        outs = []
        for i, name in enumerate(self.res_layers):
            x = self._run(name, x)
            if i == 0 and self.with_pool2:
                x = self.pool2(x)
            if i in self.out_indices:
                outs.append(x)
        return outs[0] if len(outs) == 1 else tuple(outs)

    _encode_compiled = compiled_on_gpu(_encode)

    def _stem(self, x: Tensor) -> Tensor:
        """Convolve and pool. ReLU is last, on fewer values; it commutes with the maximum."""
        if not self.with_pool1:
            return self.conv1(x)
        return self.maxpool(self.conv1(x, activate=False)).relu_()

    def _run(self, stage: str, x: Tensor) -> Tensor:
        """Run the blocks of a stage, with recomputation if ``recompute`` names the stage."""
        blocks = getattr(self, stage)
        together = self.recompute.get(stage)
        if together is None or not torch.is_grad_enabled():
            return blocks(x)
        size, policy = (
            (1, keep_narrow) if isinstance(together, str) else (together, keep_statistics)
        )
        for start in range(0, len(blocks), size):
            group = nn.Sequential(*list(blocks)[start : start + size])
            x = recomputed(group, x, group, policy)
        return x

    def train(self, mode: bool = True) -> 'R3DSlow':
        """Set training mode and return this module; MMAction2's method returns None."""
        super().train(mode)
        trace_sync_norms(self)
        return self

    def init_weights(self) -> None:
        """Initialise as the released code does, then load the checkpoint of ``init_cfg``.

        Convolutions: a normal distribution truncated at two standard deviations and scaled to
        a standard deviation of 1/sqrt(fan_in), as TensorFlow's ``VarianceScaling``. Batch norm:
        scale 1 and shift 0.

        Raises:
            CheckpointMisfitError: The checkpoint of an ``init_cfg`` of type ``Pretrained`` does
                not hold exactly the weights of this network.
        """
        super().init_weights()
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                truncated_normal_(module.weight)
        if self.init_cfg:
            for cfg in self.init_cfg if isinstance(self.init_cfg, list) else [self.init_cfg]:
                if type_name(cfg) in ('Pretrained', 'PretrainedInit'):
                    check_pretrained(self, cfg['checkpoint'], cfg.get('prefix'))
            with safe_globals(STAND_INS):
                initialize(self, self.init_cfg)

    @staticmethod
    def _check(width: float, padding: str, kwargs: dict) -> None:
        """Check what MMAction2 would not refuse, or not by its name."""
        if not 0.125 <= width <= 4 or 64 * width % 1:
            raise ValueError(
                'width must be between 0.125 and 4, and 64 * width a whole number; got '
                f'width={width}.'
            )
        if padding not in R3DSlow.paddings:
            raise ValueError(f'padding must be one of {R3DSlow.paddings}, got {padding!r}.')
        if padding == 'tf_same' and 'conv_cfg' in kwargs:
            raise ValueError("padding='tf_same' sets its own conv_cfg; leave conv_cfg out.")
        if kwargs.get('pretrained'):  # MMAction2 would load those names that fit, often none
            raise ValueError(
                f'pretrained={kwargs["pretrained"]!r}: use init_cfg=dict(type="Pretrained", '
                'checkpoint=…, prefix="backbone."), for image networks after cvrl convert inflate.'
            )

    def _check_recompute(self) -> None:
        stages = ('stem', *self.res_layers)
        for stage, blocks in self.recompute.items():
            is_number = isinstance(blocks, int) and blocks >= 1
            is_last = blocks == 'last' and stage != 'stem'
            if stage not in stages or not (is_number or is_last):
                raise ValueError(
                    "recompute must give 'last' or a number of blocks, at least 1, for stages out "
                    f'of {stages}, and a number for stem; got {stage}={blocks!r}.'
                )


def truncated_normal_(weight: Tensor) -> Tensor:
    """Initialise a kernel (out, in, …) from a truncated normal with std 1/sqrt(fan_in)."""
    fan_in = math.prod(weight.shape[1:])
    uncut_std = 1 / math.sqrt(fan_in) / TRUNCATED_STD
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, std=uncut_std, a=-2 * uncut_std, b=2 * uncut_std)


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


# TensorFlow's ``SAME`` padding


def same_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
) -> list[tuple[int, int]]:
    """Compute TensorFlow's ``SAME`` padding.

    An axis of length ``size`` yields ``ceil(size / stride)`` outputs. If the number of padded
    elements is odd, the larger half is appended at the end. With stride 1 and an odd kernel, this
    is the padding of PyTorch; with stride 2 and an even size, one element less is
    padded at the start.

    Args:
        sizes: Size of the input along each axis, (T, H, W).
        kernel: Kernel size along each axis.
        stride: Stride along each axis.
        dilation: Dilation along each axis.

    Returns:
        Number of elements to pad at the start and at the end of each axis.
    """
    pads = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        pads.append((total // 2, total - total // 2))
    return pads


class SameConv3d(nn.Conv3d):
    """``Conv3d`` with TensorFlow's ``SAME`` padding; the argument ``padding`` has no effect.

    The padding depends on the size of the input. The convolution applies its symmetric part. The
    input is copied only if an axis needs one more element at its end.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (N, C, T, H, W) into (N, C', ceil(T/s), ceil(H/s), ceil(W/s))."""
        pads = same_padding(x.shape[2:], self.kernel_size, self.stride, self.dilation)
        start = tuple(front for front, _ in pads)
        extra = [n for front, end in reversed(pads) for n in (0, end - front)]
        if any(extra):
            x = F.pad(x, extra)
        return F.conv3d(x, self.weight, self.bias, self.stride, start, self.dilation, self.groups)


class FrameMaxPool(nn.MaxPool3d):
    """``MaxPool3d`` whose compiled backward pass is a gather.

    With ``ceil_mode``, the padding is TensorFlow's ``SAME``: the last window may extend beyond the
    end of an axis, so that the input is never copied.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, T, H, W) into (N, C, ceil(T/s), ceil(H/s), ceil(W/s))."""
        kernel, stride = _triple(self.kernel_size), _triple(self.stride)
        start = list(_triple(self.padding))
        if self.ceil_mode:
            start = [front for front, _ in same_padding(x.shape[2:], kernel, stride)]
        if torch.compiler.is_compiling() and kernel[0] == stride[0] == 1:
            return _GatheredMaxPool.apply(x, kernel, stride, start, self.ceil_mode)
        return F.max_pool3d(x, kernel, stride, start, ceil_mode=self.ceil_mode)


class _GatheredMaxPool(Function):
    """Pool each frame. A pixel's gradient is the sum of those of the windows with it as maximum.

    Inductor's own backward pass scatters the gradients by atomic additions in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int],
        start: Sequence[int],
        ceil_mode: bool,
    ) -> Tensor:
        pool = torch.ops.aten.max_pool3d_with_indices
        out, where = pool(x, kernel, stride, start, (1, 1, 1), ceil_mode)
        ctx.save_for_backward(where)
        ctx.sizes, ctx.axes = x.shape[2:], list(zip(kernel, stride, start, strict=True))[1:]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (where,), (grad,) = ctx.saved_tensors, grads
        device, windows = grad.device, []
        for size, count, axis in zip(ctx.sizes[1:], grad.shape[3:], ctx.axes, strict=True):
            kernel, stride, start = axis
            last = (torch.arange(size, device=device) + start) // stride  # that can hold a pixel
            # Indices outside wrap around to windows without the pixel; none appears twice
            windows.append([(last - n) % count for n in range(min(-(-kernel // stride), count))])
        pixels = torch.arange(math.prod(ctx.sizes), device=device).view(ctx.sizes)
        total = grad.new_zeros(())
        for rows, columns in product(*windows):
            is_maximum = where[..., rows[:, None], columns] == pixels  # (N, C, T, H, W)
            total = total + torch.where(is_maximum, grad[..., rows[:, None], columns], 0)
        is_last = where.is_contiguous(memory_format=torch.channels_last_3d)
        layout = torch.channels_last_3d if is_last else torch.contiguous_format
        return total.contiguous(memory_format=layout), *[None] * 4
