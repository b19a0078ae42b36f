"""Export encoders and classifiers for use without this package."""

import copy
import json
import logging
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from ..io import replacing

# ONNX has no 3D convolution in bfloat16
DTYPES = {'.onnx': ('float32', 'float16'), '.pt2': ('float32', 'float16', 'bfloat16')}
TOLERANCE, HALF_TOLERANCE = 1e-5, 1.0  # in float32 and in others, of the largest feature


def export_encoder(
    encoder: nn.Module,
    out: str | Path,
    dtype: str = 'float32',
    classes: Sequence[str] | None = None,
) -> float:
    """Export a graph from uint8 clips to features, and compare it with the encoder.

    Normalisation and pooling are part of the graph. It takes any number of clips of the encoder's
    own length and size: the input ``clips`` is (N, 3, T, H, W) uint8, the output ``features`` is
    (N, C) float32. The output of a classifier is ``probabilities``, (N, K). The
    clips that the encoder expects (:class:`ClipInput`) are stored as JSON under the name
    ``input``: in the metadata of an ONNX file, as an extra file of a ``.pt2`` file.

    Args:
        encoder: An :class:`Encoder`, or the ``network`` of a classifier; it is not modified.
        out: A file name that ends in ``.onnx`` or ``.pt2``.
        dtype: Type of the weights and of the computation: ``float32``, ``float16`` or, in a
            ``.pt2`` file, ``bfloat16``.
        classes: Names of the classes of a classifier, also stored, as ``classes``.

    Returns:
        The largest absolute difference from the eager float32 encoder on a random clip, relative to
        the largest feature.

    Raises:
        ValueError: The suffix or the data type is unknown or not supported, or the graph deviates
            from the encoder by more than 1e-5, in half precision by more than 1 or by NaN.
        ImportError: A package for ONNX is missing.
    """
    out = Path(out)
    if dtype not in DTYPES.get(out.suffix, ()):
        raise ValueError(f'{out} of dtype {dtype!r}: suffixes and data types are {DTYPES}.')
    for package in ('onnx', 'onnxscript', 'onnxruntime') if out.suffix == '.onnx' else ():
        if find_spec(package) is None:
            raise ImportError(f"{package} is not installed: pip install 'cvrl_mm[export]'")
    out.parent.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    shape = 1, 3, *_clip_shape(encoder)
    clips = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    with torch.no_grad():
        expected = copy.deepcopy(encoder).cpu().float()(clips)
    with replacing(out) as part:
        _write_graph(encoder, part, getattr(torch, dtype), classes)
        scale = expected.abs().max().item()
        difference = (run_graph(part, clips) - expected).abs().max().item() / (scale or 1.0)
        allowed = TOLERANCE if dtype == 'float32' else HALF_TOLERANCE
        if not difference <= allowed:  # also rejects NaN
            raise ValueError(
                f'The exported {dtype} graph deviates from the encoder by {difference:.2g} of its '
                f'largest feature (allowed: {allowed:g}); nothing was written.'
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
    return torch.from_numpy(session.run(None, dict(clips=clips.numpy()))[0])


def _clip_input(encoder: nn.Module) -> Any:
    return next(m.clip_input for m in encoder.modules() if hasattr(m, 'clip_input'))


def _clip_shape(encoder: nn.Module) -> tuple[int, int, int]:
    clip = _clip_input(encoder)
    return clip.clip_len, clip.size, clip.size


def _write_graph(
    encoder: nn.Module, out: Path, dtype: torch.dtype, classes: Sequence[str] | None
) -> None:
    texts = dict(input=json.dumps(_clip_input(encoder).to_dict()))
    if classes is not None:
        texts['classes'] = json.dumps(list(classes))
    module = _Uint8Encoder(copy.deepcopy(encoder).cpu().to(dtype)).eval()
    example = torch.zeros(2, 3, *_clip_shape(encoder), dtype=torch.uint8)
    sizes = {0: torch.export.Dim.DYNAMIC}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        program = torch.export.export(module, (example,), dynamic_shapes=dict(clips=sizes))
        if out.suffix == '.pt2':
            torch.export.save(program, out, extra_files=texts)
            return
        output = 'probabilities' if classes else 'features'
        names: dict[str, Any] = dict(input_names=['clips'], output_names=[output])
        # torchvision's operators, which are not needed, may be missing
        logging.getLogger('torch.onnx').setLevel(logging.ERROR)
        graph = torch.onnx.export(program, dynamo=True, verbose=False, **names)
        assert graph is not None
        graph.model.metadata_props.update(texts)
        graph.save(out, external_data=False)


class _Uint8Encoder(nn.Module):
    """An encoder with the named input ``clips`` and float32 output for weights of any type."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, clips: Tensor) -> Tensor:
        return self.encoder(clips).float()
