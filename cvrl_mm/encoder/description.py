"""Describe an encoder: its clips, its architecture, and the network that its weights fit.

A weights file has the description in its metadata: ``backbone``, a config of MMAction2, and
``input``, the fields of :class:`ClipInput`. Checkpoints of mmengine have ``cfg``, the text of the
training config. All of it may come from an unknown source: no text is executed.
"""

import ast
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

import torch
from mmaction.registry import MODELS
from mmengine.logging import print_log
from mmengine.registry import MODELS as ROOT
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from ..models.weights import CheckpointMisfitError, check_fit, is_counter
from ..text import one_line, printable, type_name

INFLATED = (
    '{} is inflated from an image network and expects frames in [0, 1]. If that network was '
    'trained on frames normalised by mean and std, name a config that sets them, such as '
    'configs/baselines/linear_k400_imagenet_inflated.py.'
)
PREFIX = 'backbone.'
# Data loaders of a config, in the order in which they are used to find the evaluation clips
LOADERS = ('test_dataloader', 'val_dataloader', 'train_dataloader')
# Settings of initialisation and training, which are not part of the architecture
NOT_ARCHITECTURE = (
    'init_cfg',
    'pretrained',
    'frozen_stages',
    'norm_eval',
    'with_cp',
    'recompute',
    'compiled',
)
# Backbones for clips whose constructors open no file; MMAction2's OmniResNet loads one
BACKBONES = (
    *('R3DSlow', 'ResNet3d', 'ResNet3dSlowOnly', 'ResNet3dSlowFast', 'C2D', 'C3D', 'X3D'),
    *('MViT', 'SwinTransformer3D', 'TimeSformer', 'UniFormer', 'UniFormerV2', 'VisionTransformer'),
)
LAYER_MODULES = ('torch.nn.', 'mmcv.cnn.', 'mmengine.utils.dl_utils.', 'mmaction.models.common.')
PATHWAY = 'resnet3d'  # the type of SlowFast's pathways, which is not registered
# Keys besides type whose values MMAction2 imports, or loads as weights
NOT_LAYERS = re.compile('_scope_|padding_mode|init_cfg|pretrain.*')

# Names of the first convolution in files of SlowFast and of 2D ResNets
SLOWFAST_STEM, RESNET_STEM = 's1.pathway0_stem.conv.weight', 'conv1.weight'


@dataclass(frozen=True)
class ClipInput:
    """Shape and normalisation of an encoder's clips (Sec. 4.1: 32 frames, stride 2, 256x256).

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        size: Side of the square crop in pixels.
        mean: Subtracted from the RGB values, which range from 0 to 255.
        std: The values are then divided by this. The defaults map frames to [0, 1].
        fps: Frames per second at which frames are counted (Sec. 4.1: 25); None counts the stored
            frames.

    Raises:
        ValueError: An argument is malformed or out of range.
    """

    clip_len: int = 32
    frame_interval: int = 2
    size: int = 256
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (255.0, 255.0, 255.0)
    fps: float | None = None

    def __post_init__(self) -> None:
        for name in ('clip_len', 'frame_interval', 'size'):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f'{name} must be a positive integer, got {short(value)}.')
        for name in ('mean', 'std'):
            values = getattr(self, name)
            if not isinstance(values, (tuple, list)) or len(values) != 3:
                raise ValueError(f'{name} must be three numbers, got {short(values)}.')
            object.__setattr__(self, name, tuple(map(float, values)))
        if min(self.std) <= 0 or (self.fps is not None and self.fps <= 0):
            raise ValueError(f'std={self.std} and fps={self.fps} must be positive.')

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> 'ClipInput':
        """Create an instance from a config.

        The first pipeline that samples clips describes them: ``feature_pipeline``, or the pipeline
        for testing, validation or training, also of wrapped datasets such as in a
        ``RepeatDataset``.

        Args:
            config: A config with ``model.data_preprocessor``. Without a pipeline that samples
                clips, the clips have the default length and size.

        Raises:
            ValueError: A value is malformed, the preprocessor swaps the channels, or the config is
                of MMAction2 0.x.
        """
        if isinstance(config.get('data'), Mapping) and not {*LOADERS} & {*config}:
            raise ValueError(
                'This config is of MMAction2 0.x, which describes clips and their normalisation in '
                '`data`; write them into feature_pipeline and model.data_preprocessor.'
            )
        model = config.get('model', {})
        preprocessor = model.get('data_preprocessor') or config.get('data_preprocessor') or {}
        if preprocessor.get('to_rgb'):
            raise ValueError('data_preprocessor.to_rgb swaps the channels; encoders take RGB.')
        found: dict[str, Any] = dict(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        found |= {k: preprocessor[k] for k in ('mean', 'std') if preprocessor.get(k)}
        pipelines = [config.get('feature_pipeline')]
        for name in LOADERS:
            pipelines += [x.get('pipeline') for x in _dicts(config.get(name))]
        for pipeline in pipelines:
            steps = [*_dicts(pipeline), *_dicts(preprocessor)]
            sampler = next((step for step in steps if 'clip_len' in step), None)
            if sampler is None:
                continue
            found['clip_len'] = sampler['clip_len']
            found['frame_interval'] = sampler.get('frame_interval', 1)
            found['fps'] = sampler.get('fps', sampler.get('target_fps'))
            if 'Uniform' in str(sampler.get('type')):
                _warn(
                    f'{short(sampler["type"])} spreads the frames of a clip over the whole video, '
                    'but the clips here have consecutive frames. The features may be worse; name '
                    'a config whose feature_pipeline has a frame_interval.'
                )
            if sizes := [size for size in map(_crop_size, steps) if size]:
                found['size'] = sizes[-1]
            else:
                _warn(
                    f'The pipeline makes no square frames; the clips here have {cls.size} x '
                    f'{cls.size} pixels. The features may be worse.'
                )
            break
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of numbers and lists, which can be stored in a weights file."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def _warn(text: str) -> None:
    print_log(text, logger='current', level=logging.WARNING)


def _dicts(value: Any) -> Iterator[Mapping]:
    """Yield a value and everything in its dicts and lists that is a dict, in order."""
    if isinstance(value, Mapping):
        yield value
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        for x in value:
            yield from _dicts(x)


def _crop_size(step: Mapping) -> int | None:
    """Return the side of the square that a transform crops or resizes to, or None."""
    size = step.get('crop_size', step.get('scale'))
    if size is None and str(step.get('type')).endswith('Crop'):  # such as RandomCrop
        size = step.get('size')
    if isinstance(size, (tuple, list)) and len(size) == 2 and size[0] == size[1]:
        size = size[0]
    return size if type(size) is int and size > 0 else None


def describe(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Read the description of backbone and clips from the metadata of a checkpoint.

    Args:
        meta: Metadata with ``backbone`` and ``input``, as this package writes them, or with
            ``cfg``, the text of a training config. What ``input`` lacks is taken from ``cfg``.

    Returns:
        A dict with ``backbone``, the config of the backbone, and ``input``, the fields of
        :class:`ClipInput`. A key is absent if ``meta`` does not describe it.

    Raises:
        ValueError: The description is malformed.
        TypeError: ``input`` has an unknown key.
    """
    told: dict[str, Any] = {}
    config = read_config_text(meta['cfg']) if isinstance(meta.get('cfg'), str) else {}
    model = config.get('model')
    if isinstance(model, dict) and isinstance(model.get('backbone'), dict):
        told = dict(backbone=model['backbone'], input=ClipInput.from_config(config).to_dict())
    if 'backbone' in meta:
        told['backbone'] = meta['backbone']
    if 'input' in meta:
        told['input'] = told.get('input', {}) | meta['input']
    if 'backbone' in told:
        told['backbone'] = architecture_of(told['backbone'])
    if 'input' in told:
        told['input'] = ClipInput(**told['input']).to_dict()
    return told


def read_config_text(text: str) -> dict[str, Any]:
    """Parse the text of a config without executing it, as mmengine's parser does.

    Args:
        text: ``Config.pretty_text``, which mmengine stores in ``meta['cfg']``.

    Returns:
        The values by name: literals and ``dict(...)``. Other assignments are ignored.

    Raises:
        ValueError: The text is not Python source.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f'The stored config is not Python source: {error}.') from error
    values = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                value = ast.literal_eval(_DictCalls().visit(statement.value))
            except (ValueError, TypeError):
                continue
            values[statement.targets[0].id] = value
    return values


class _DictCalls(ast.NodeTransformer):
    """Replace ``dict(a=1)`` by ``{'a': 1}``, ``dict({'a-b': 1})`` by its argument, and ``inf``."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in ('inf', 'nan') else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == 'dict'):
            return node
        if node.args:
            return node.args[0] if len(node.args) == 1 and not node.keywords else node
        keys: list[Any] = [k.arg and ast.Constant(k.arg) for k in node.keywords]  # None: **
        return ast.copy_location(ast.Dict(keys, [k.value for k in node.keywords]), node)


def architecture_of(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the fields of a backbone's config that determine the network.

    Raises:
        ValueError: This is not the config of a backbone.
    """
    if not isinstance(backbone, Mapping) or not isinstance(backbone.get('type'), str):
        raise ValueError(f'The description of the backbone is malformed: {short(backbone)}.')
    kept = {
        k: v
        for k, v in backbone.items()
        if not k.startswith(NOT_ARCHITECTURE) and k != '_scope_' and v is not None
    }
    return kept | dict(type=type_name(backbone))  # pure-Python configs have the path of the class


def build_backbone(
    backbone: Mapping[str, Any], checkpoint: Mapping[str, Any], name: str
) -> nn.Module:
    """Build a backbone and load its weights.

    Args:
        backbone: Config of the backbone.
        checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta``.
        name: Name of the checkpoint in error messages.

    Raises:
        ValueError: The type of the backbone is unknown, or the weights do not fit.
    """
    init_default_scope('mmaction')
    if backbone['type'] not in BACKBONES:
        raise ValueError(f'{name}: {short(backbone["type"])} is none of {", ".join(BACKBONES)}.')
    try:
        pathways = [backbone.get(name) for name in ('slow_pathway', 'fast_pathway')]
        for part in _dicts(backbone):
            kind = part.get('type')
            is_pathway = kind == PATHWAY and any(part is x for x in pathways)
            is_layer = kind is None or _module_of(kind).startswith(LAYER_MODULES)
            if not (part is backbone or is_pathway or is_layer):
                raise ValueError(f'{short(kind)} is no layer of a network')
            if named := [k for k, v in part.items() if v and NOT_LAYERS.fullmatch(str(k))]:
                raise ValueError(f'it sets {named[0]}, which can import modules or load files')
        network = MODELS.build(dict(backbone))
        load_backbone(network, checkpoint, name)
    except CheckpointMisfitError as error:
        raise ValueError(
            f'{error} The network is {short(backbone)}; give the config that the weights were '
            'trained with.'
        ) from error
    except Exception as error:  # constructors raise many kinds of errors
        why = f'cannot be built: {printable(one_line(error))}'
        raise ValueError(f'{name}: {short(backbone)} {why}') from error
    return network


def _module_of(kind: object) -> str:
    """Return the module of a registered class, or ''.

    ``MODELS.get`` imports any name that is not registered, which runs code that a file names.
    """
    if not isinstance(kind, str):
        return ''
    MODELS.import_from_location()
    found = (MODELS.module_dict | ROOT.module_dict).get(kind.removeprefix('mmaction.'))
    return getattr(found, '__module__', '')


def load_backbone(network: nn.Module, checkpoint: Mapping[str, Any], name: str) -> None:
    """Load the ``backbone.…`` weights of a loaded checkpoint into a network.

    Raises:
        CheckpointMisfitError: Names or shapes differ from the network's.
    """
    check_fit(network, dict(checkpoint), name, PREFIX)
    state = checkpoint['state_dict']
    weights = {k.removeprefix(PREFIX): v for k, v in state.items() if k.startswith(PREFIX)}
    network.load_state_dict(weights, strict=False)  # num_batches_tracked may be missing


def described(
    weights: Mapping[str, Tensor], backbone: Mapping[str, Any], source: str | Path, **meta: Any
) -> dict[str, Any]:
    """Make a checkpoint of converted weights, after a check that they fit their description.

    Args:
        weights: Weights with the names of the network.
        backbone: Config of the network.
        source: The file that the weights are from.
        **meta: More metadata.

    Returns:
        ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source`` and ``backbone``.

    Raises:
        CheckpointMisfitError: Weights are missing or have wrong shapes.
    """
    with torch.device('meta'):
        network = MODELS.build(dict(backbone))
    check_fit(network, dict(weights), str(source))
    state = {
        f'{PREFIX}{key}': torch.tensor(0) if is_counter(key) else weights[key]
        for key in network.state_dict()
    }
    print_log(f'{source}: {len(state)} tensors of {short(backbone)} converted.', 'current')
    return dict(
        state_dict=state,
        meta=dict(source=Path(source).absolute().name, backbone=dict(backbone)) | meta,
    )


def conversion_of(state: Mapping[str, Tensor]) -> str | None:
    """Return the subcommand of cvrl convert that converts foreign weights.

    Args:
        state: A state dict.

    Returns:
        ``'slowfast'``, ``'inflate'``, or None for weights that need no conversion.
    """
    if any(key.endswith(SLOWFAST_STEM) for key in state):
        return 'slowfast'
    stems = (v for k, v in state.items() if k == RESNET_STEM or k.endswith(f'.{RESNET_STEM}'))
    return 'inflate' if any(stem.ndim == 4 and stem.shape[1] == 3 for stem in stems) else None
