"""The video encoder of CVRL."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from mmaction.models import ResNet3dSlowOnly
from mmaction.registry import MODELS
from mmengine.model import initialize
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.utils import _triple
from torch.utils.checkpoint import checkpoint

from .weights import check_pretrained

# Standard deviation of a standard normal distribution truncated at -2 and 2.
TRUNCATED_STD = 0.87962566103423978
# SyncBatchNorm's CUDA kernels index tensors in channels last with 32 bits, others with 64 bits
MAX_ELEMENTS = 2**31
# Blocks per stage; 36 in R3D-152. Bounds the network that the description in a checkpoint asks for
LARGEST_STAGE = 100


@MODELS.register_module()
class R3DSlow(ResNet3dSlowOnly):
    """3D ResNet of CVRL (Section 3.2, Table 1): a slow pathway with a strided 5x7x7 stem.

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
            precision. By default, the layout of the clips is kept, except that clips whose
            activations have 2**31 elements or more are made contiguous on a GPU.
        recompute: Stages whose activations are recomputed in the backward pass to save memory,
            with the number of blocks that are recomputed together: ``dict(layer1=3, layer3=2)``.
            A number above the length of the stage selects the whole stage. ``stem`` means the
            first convolution and the max pooling. The results and the running statistics of batch
            norm do not change.
        with_cp: Recompute all stages except the stem, one block at a time; replaces
            ``recompute``.
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
        recompute: Mapping[str, int] | None = None,
        with_cp: bool = False,
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
        if padding == 'tf_same':
            self.maxpool = SameMaxPool3d(self.maxpool.kernel_size, self.maxpool.stride)
        self.width = width
        self.padding = padding
        self.channels_last = channels_last
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
        elif x.device.type != 'cpu' and self._stem_elements(x) >= MAX_ELEMENTS:
            x = x.contiguous()  # loaders give channels last
        stem = [self.conv1, self.maxpool] if self.with_pool1 else [self.conv1]
        x = self._run('stem', stem, x)
        outs = []
        for i, name in enumerate(self.res_layers):
            x = self._run(name, list(getattr(self, name)), x)
            if i == 0 and self.with_pool2:
                x = self.pool2(x)
            if i in self.out_indices:
                outs.append(x)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _stem_elements(self, x: Tensor) -> int:
        """Return the elements of the stem's output for clips ``x``, the largest of all tensors."""
        strides = (self.conv1_stride_t, self.conv1_stride_s, self.conv1_stride_s)
        positions = (-(-size // stride) for size, stride in zip(x.shape[2:], strides, strict=True))
        return len(x) * self.base_channels * math.prod(positions)

    def _run(self, stage: str, modules: list[nn.Module], x: Tensor) -> Tensor:
        """Run the modules of a stage, with recomputation if ``recompute`` names the stage."""
        together = self.recompute.get(stage)
        if together is None or not torch.is_grad_enabled():
            return nn.Sequential(*modules)(x)
        if stage == 'stem':
            together = len(modules)
        for start in range(0, len(modules), together):
            group = nn.Sequential(*modules[start : start + together])
            x = checkpoint(
                group,
                x,
                use_reentrant=False,
                preserve_rng_state=False,  # nothing in a ResNet is random
                context_fn=partial(_contexts, group),
            )
        return x

    def train(self, mode: bool = True) -> 'R3DSlow':
        """Set training mode and return this module; MMAction2's method returns None."""
        super().train(mode)
        return self

    def init_weights(self, pretrained: str | None = None) -> None:
        """Initialise as the released code does, then load the checkpoint of ``init_cfg``.

        Convolutions: a normal distribution truncated at two standard deviations and scaled to
        a standard deviation of 1/sqrt(fan_in), as TensorFlow's ``VarianceScaling``. Batch norm:
        scale 1 and shift 0.

        Args:
            pretrained: A checkpoint, as in MMAction2's backbones; overrides
                ``self.pretrained``.

        Raises:
            CheckpointMisfitError: The checkpoint of an ``init_cfg`` of type ``Pretrained`` does
                not hold exactly the weights of this network.
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
        blocks = kwargs.get('stage_blocks') or (1,)
        if not isinstance(blocks, Sequence) or not set(blocks) <= set(range(1, LARGEST_STAGE + 1)):
            raise ValueError(
                f'stage_blocks must be numbers from 1 to {LARGEST_STAGE}; got {blocks!r:.80}.'
            )

    def _check_recompute(self) -> None:
        stages = ('stem', *self.res_layers)
        for stage, blocks in self.recompute.items():
            if stage not in stages or not isinstance(blocks, int) or blocks < 1:
                raise ValueError(
                    f'recompute must give numbers of blocks, at least 1, for stages out of '
                    f'{stages}; got {stage}={blocks!r}.'
                )


def _contexts(group: nn.Module) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Return the contexts of a group's forward pass and of its recomputation."""
    return nullcontext(), part_of_update(group, None)


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


class SameMaxPool3d(nn.MaxPool3d):
    """``MaxPool3d`` with TensorFlow's ``SAME`` padding; the argument ``padding`` has no effect.

    Padded elements count as minus infinity. ``ceil_mode`` lets the last window extend beyond the
    end of an axis, so that the input is never copied.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, T, H, W) into (N, C, ceil(T/s), ceil(H/s), ceil(W/s))."""
        pads = same_padding(x.shape[2:], _triple(self.kernel_size), _triple(self.stride))
        start = [front for front, _ in pads]
        return F.max_pool3d(x, self.kernel_size, self.stride, start, ceil_mode=True)


# Running statistics of batch norm for several forward passes per step


@contextmanager
def part_of_update(network: nn.Module, index: int | None, count: int = 1) -> Iterator[None]:
    """Combine several forward passes into one update of the running statistics.

    After all ``count`` passes, the running mean is ``(1 - m) * old + m * mean``, where ``mean``
    is the average of the batch means of all passes. The same holds for the variance, and
    ``num_batches_tracked`` is increased by one. m is the momentum, or
    ``1 / (num_batches_tracked + 1)`` if the momentum is ``None``, as in
    :class:`torch.nn.BatchNorm3d`.

    Args:
        network: The network that contains the batch norms.
        index: Number of this pass, from 0. The passes must run in this order. None for a
            recomputation: the batch norms normalise by the statistics of the batch and update
            nothing. (Without buffers, autograd would save other tensors, and
            :func:`torch.utils.checkpoint.checkpoint` compares these.)
        count: Number of passes.
    """
    norms: Any = [
        norm
        for norm in network.modules()
        if isinstance(norm, _BatchNorm) and norm.training and norm.track_running_stats
    ]
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    try:
        for norm, momentum, counter in before:
            if index is None:
                norm.momentum = 0.0
            else:
                if momentum is None:  # the first pass has increased the counter already
                    momentum = 1 / (int(counter) + (index == 0))
                # After this pass, the old value and passes 0 to index have the total weight
                # (1 - m) + (index + 1) * m / count of the final result, of which this pass has
                # m / count.
                norm.momentum = momentum / (count * (1 - momentum) + (index + 1) * momentum)
            if index != 0:
                norm.num_batches_tracked = torch.zeros_like(counter)
        yield
    finally:  # torch stops a recomputation by an exception as soon as it has all tensors
        for norm, momentum, counter in before:
            norm.momentum, norm.num_batches_tracked = momentum, counter
