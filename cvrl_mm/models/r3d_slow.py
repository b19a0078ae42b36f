"""The video encoder of CVRL."""

import difflib
import inspect
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from mmaction.models import ResNet3dSlowOnly
from mmaction.registry import MODELS
from mmengine.model import initialize
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .running_statistics import unchanged
from .same_conv3d import SameConv3d
from .same_max_pool3d import SameMaxPool3d
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
        ValueError: An argument is unknown or has a value other than the above.
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
        x = self._run('stem', [self.conv1, self.maxpool] if self.with_pool1 else [self.conv1], x)
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
                context_fn=partial(_recomputation, group),
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
    def _check(depth: int, width: float, padding: str, kwargs: dict) -> None:
        known = {
            name for cls in R3DSlow.__mro__ for name in inspect.signature(cls.__init__).parameters
        }
        for name in kwargs.keys() - known:
            close = difflib.get_close_matches(name, known, 1)
            raise ValueError(
                f'R3DSlow has no argument {name!r}'
                + (f'; did you mean {close[0]!r}?' if close else '.')
            )
        if depth not in ResNet3dSlowOnly.arch_settings:
            depths = ', '.join(map(str, ResNet3dSlowOnly.arch_settings))
            raise ValueError(f'depth must be one of {depths}; got depth={depth}.')
        if not 0.125 <= width <= 4 or 64 * width % 1:
            raise ValueError(
                'width must be between 0.125 and 4, and 64 * width a whole number; got '
                f'width={width}. Use 0.125, 0.25, 0.5, 1, 2 or 4.'
            )
        blocks = kwargs.get('stage_blocks')
        if blocks is not None and not (
            isinstance(blocks, Sequence) and set(blocks) <= set(range(1, LARGEST_STAGE + 1))
        ):
            raise ValueError(
                'stage_blocks must give the number of blocks of each stage, from 1 to '
                f'{LARGEST_STAGE}; got {blocks!r:.80}.'
            )
        if padding not in R3DSlow.paddings:
            raise ValueError(f'padding must be one of {R3DSlow.paddings}, got {padding!r}.')
        if padding == 'tf_same' and 'conv_cfg' in kwargs:
            raise ValueError(
                "padding='tf_same' sets its own conv_cfg, but conv_cfg="
                f'{kwargs["conv_cfg"]} was given as well. Remove one of them.'
            )

    def _check_recompute(self) -> None:
        stages = ('stem', *self.res_layers)
        for stage, blocks in self.recompute.items():
            if stage not in stages:
                raise ValueError(
                    f'recompute must name stages out of {", ".join(stages)}; got {stage!r}.'
                )
            if not isinstance(blocks, int) or blocks < 1:
                raise ValueError(
                    'recompute must give the number of blocks that are recomputed together, at '
                    f'least 1; got {stage}={blocks!r}.'
                )


def truncated_normal_(weight: Tensor) -> Tensor:
    """Initialise a kernel (out, in, …) from a truncated normal with std 1/sqrt(fan_in)."""
    fan_in = math.prod(weight.shape[1:])
    uncut_std = 1 / math.sqrt(fan_in) / TRUNCATED_STD
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, std=uncut_std, a=-2 * uncut_std, b=2 * uncut_std)


def _recomputation(group: nn.Module) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Return the contexts of a group's forward pass and of its recomputation."""
    return nullcontext(), unchanged(group)
