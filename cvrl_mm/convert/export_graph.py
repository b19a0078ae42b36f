"""Export an encoder to ONNX or to a torch.export archive (pt2), which run without this package."""

import copy
import logging
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from mmengine.logging import print_log
from mmengine.utils import digit_version
from torch import Tensor, nn
from torch.nn.modules.utils import _triple

from ..io import check_target, replacing
from ..models.backbone import SameConv3d, SameMaxPool3d

SUFFIXES = ('.onnx', '.pt2')
DTYPES = dict(float32=torch.float32, float16=torch.float16, bfloat16=torch.bfloat16)
EXAMPLE = (2, 3, 8, 64, 64)  # only for tracing: all sizes but the channels are dynamic
# This logger warns about operators of torchvision, which no backbone uses.
ONNX_OPERATORS = 'torch.onnx._internal.exporter._registration'
TOLERANCE = 1e-5  # in float32, relative to the largest feature


def check_export(out: str | Path, dtype: str) -> None:
    """Check the arguments and the installed packages before an export.

    Raises:
        ValueError: The suffix or the data type is unknown, ONNX does not support the data type,
            or the target is a folder or a device.
        ImportError: A package for ONNX is missing, or torch is too old.
    """
    check_target(Path(out))
    suffix = Path(out).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f'An export ends in {" or ".join(SUFFIXES)}, got {out}.')
    if dtype not in DTYPES:
        raise ValueError(f'dtype must be one of {", ".join(DTYPES)}, got {dtype!r}.')
    if suffix == '.onnx' and dtype == 'bfloat16':
        raise ValueError(
            'ONNX has no 3D convolution in bfloat16; use float16, or export a .pt2 file.'
        )
    if digit_version(torch.__version__) < digit_version('2.6'):
        raise ImportError(f'An export needs torch 2.6 or later, {torch.__version__} is installed.')
    if suffix == '.onnx':
        try:
            import onnx  # noqa: F401
            import onnxruntime  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError as error:
            raise ImportError(
                'An export to ONNX needs three packages: pip install onnx onnxruntime onnxscript.'
            ) from error


def export_encoder(encoder: nn.Module, out: str | Path, dtype: str = 'float32') -> float:
    """Export a graph from uint8 clips to features, and compare it with the encoder.

    Normalisation and pooling are part of the graph. Batch size, time, height and width are
    dynamic, with at least 4 frames and more than 32 pixels per side. The input ``clips`` is
    (N, 3, T, H, W) uint8, the output ``features`` is (N, C) float32.

    Args:
        encoder: An :class:`Encoder`; it is not modified.
        out: A file name that ends in ``.onnx`` or ``.pt2``.
        dtype: Type of the weights and of the computation.

    Returns:
        The largest absolute difference from the eager float32 encoder on a random clip of another
        size, relative to the largest feature.

    Raises:
        ValueError: See :func:`check_export`; also if the float32 graph deviates from the encoder
            by more than 1e-5.
        ImportError: See :func:`check_export`.
    """
    check_export(out, dtype)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    module = _Uint8Encoder(_with_dynamic_padding(copy.deepcopy(encoder).cpu()).to(DTYPES[dtype]))
    generator = torch.Generator().manual_seed(0)
    example = torch.randint(0, 256, EXAMPLE, dtype=torch.uint8, generator=generator)
    sizes = {axis: torch.export.Dim.DYNAMIC for axis in (0, 2, 3, 4)}
    logging.getLogger(ONNX_OPERATORS).setLevel(logging.ERROR)
    with replacing(out) as part:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            program = torch.export.export(
                module.eval(), (example,), dynamic_shapes=dict(clips=sizes)
            )
            if out.suffix == '.pt2':
                torch.export.save(program, part)
            else:
                graph = torch.onnx.export(
                    program,
                    dynamo=True,
                    input_names=['clips'],
                    output_names=['features'],
                    verbose=False,
                )
                assert graph is not None
                graph.save(part, external_data=False)
        clips = torch.randint(0, 256, (1, 3, 11, 57, 76), dtype=torch.uint8, generator=generator)
        with torch.no_grad():
            expected = copy.deepcopy(encoder).cpu().float()(clips)
        scale = expected.abs().max().item()
        difference = (run_graph(part, clips) - expected).abs().max().item() / (scale or 1.0)
        if dtype == 'float32' and not difference <= TOLERANCE:
            raise ValueError(
                f'The exported graph deviates from the encoder by {difference:.2g} of its largest '
                f'feature (allowed: {TOLERANCE:g}); nothing was written.'
            )
    print_log(
        f'{out}: {out.stat().st_size / 1e6:.1f} MB, {dtype}; deviates from the eager float32 '
        f'encoder by {difference:.1e} of its largest feature.',
        logger='current',
    )
    return difference


def run_graph(path: str | Path, clips: Tensor) -> Tensor:
    """Run an exported graph on the CPU.

    Args:
        path: A ``.onnx`` or ``.pt2`` file.
        clips: (N, 3, T, H, W) uint8.
    """
    if Path(path).suffix == '.pt2':
        return torch.export.load(path).module()(clips).detach()
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    return torch.from_numpy(session.run(['features'], dict(clips=clips.numpy()))[0])


class _Uint8Encoder(nn.Module):
    """An encoder with the named input ``clips`` and float32 output for weights of any type."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, clips: Tensor) -> Tensor:
        return self.encoder(clips).float()


def _with_dynamic_padding(module: nn.Module) -> nn.Module:
    """Replace layers with TensorFlow's padding by layers that compute it inside the graph."""
    for name, child in module.named_children():
        if isinstance(child, (SameConv3d, SameMaxPool3d)):
            setattr(module, name, _DynamicSame(child))
        else:
            _with_dynamic_padding(child)
    return module


class _DynamicSame(nn.Module):
    """Compute the padding from symbolic sizes, pad, and apply the layer without padding."""

    def __init__(self, layer: SameConv3d | SameMaxPool3d) -> None:
        super().__init__()
        self.layer = layer
        self.kernel, self.stride = _triple(layer.kernel_size), _triple(layer.stride)
        self.dilation = _triple(layer.dilation)

    def forward(self, x: Tensor) -> Tensor:
        pads = []
        axes = zip(x.shape[2:], self.kernel, self.stride, self.dilation, strict=True)
        for size, kernel, stride, dilation in reversed(list(axes)):
            reach = dilation * (kernel - 1) + 1
            total = max(reach - 1, 0)
            if stride > 1:
                # Not negative, because only kernels of size 1 are smaller than their stride. Only
                # positive numbers are divided: ONNX rounds negative quotients differently.
                total = (size - 1) // stride * stride + reach - size if reach > 1 else 0
            pads += [total // 2, total - total // 2]
        if isinstance(self.layer, SameMaxPool3d):
            return F.max_pool3d(F.pad(x, pads, value=-torch.inf), self.kernel, self.stride)
        conv = self.layer
        return F.conv3d(
            F.pad(x, pads), conv.weight, conv.bias, conv.stride, 0, conv.dilation, conv.groups
        )
