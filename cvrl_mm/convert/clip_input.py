"""Description of the clips that an encoder was trained on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# Data loaders of a config, in the order in which they are used to find the evaluation clips
LOADERS = ('test_dataloader', 'val_dataloader', 'train_dataloader')


@dataclass(frozen=True)
class ClipInput:
    """Shape and normalisation of an encoder's clips (Section 4.1: 32 frames, stride 2, 256x256).

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        size: Side of the square crop in pixels.
        mean: Subtracted from the RGB values, which range from 0 to 255.
        std: The values are then divided by this. The defaults map frames to [0, 1].

    Raises:
        ValueError: An argument is malformed or out of range.
    """

    clip_len: int = 32
    frame_interval: int = 2
    size: int = 256
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (255.0, 255.0, 255.0)

    def __post_init__(self) -> None:
        for name, most in (('clip_len', 1024), ('frame_interval', 1024), ('size', 4096)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(
                    f'{name} of clips must be an integer from 1 to {most}, got {value!r}.'
                )
        for name in ('mean', 'std'):
            values = getattr(self, name)
            if not isinstance(values, (tuple, list)) or len(values) != 3:
                raise ValueError(f'{name} must be three numbers, one per channel, got {values!r}.')
            if not all(type(v) in (int, float) and math.isfinite(v) for v in values):
                raise ValueError(f'{name} must be three finite numbers, got {values!r}.')
            object.__setattr__(self, name, tuple(map(float, values)))
        if min(self.std) <= 0:
            raise ValueError(f'std must be positive, got {self.std}.')

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> 'ClipInput':
        """Create an instance from the ``input`` in the description of a weights file.

        Raises:
            ValueError: A key is unknown or a value is malformed.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f'The description of the input must be a dict, got {given!r:.80}.')
        if unknown := set(given) - set(cls.__dataclass_fields__):
            raise ValueError(
                f'The description of the input has unknown keys {sorted(map(str, unknown))}.'
            )
        return cls(**given)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> 'ClipInput':
        """Create an instance from a config.

        The clips are those of the first pipeline that samples clips: ``feature_pipeline``, or the
        pipeline for testing, validation or training. Wrapped datasets, such as those of a
        ``RepeatDataset`` or ``ConcatDataset``, are searched as well.

        Args:
            config: A config with ``model.data_preprocessor``. Without a pipeline that samples
                clips, the clips have the default length and size.

        Raises:
            ValueError: A value is malformed, or the preprocessor swaps the channels.
        """
        preprocessor = config.get('model', {}).get('data_preprocessor') or {}
        if not isinstance(preprocessor, Mapping):
            raise ValueError(f'data_preprocessor must be a dict, got {preprocessor!r:.80}.')
        if preprocessor.get('to_rgb'):
            raise ValueError(
                'data_preprocessor.to_rgb=True swaps the channels; encoders take RGB frames.'
            )
        found: dict[str, Any] = dict(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        found |= {k: preprocessor[k] for k in ('mean', 'std') if preprocessor.get(k)}
        pipelines = [config.get('feature_pipeline')]
        pipelines += [p for name in LOADERS for p in _pipelines(config.get(name))]
        for pipeline in filter(None, pipelines):
            steps = [*_steps(pipeline), *_steps(preprocessor)]
            sampler = next((s for s in steps if 'clip_len' in s), None)
            if sampler is None:
                continue
            found['clip_len'] = sampler['clip_len']
            found['frame_interval'] = sampler.get('frame_interval', 1)
            if sizes := [size for size in map(_crop_size, steps) if size]:
                found['size'] = sizes[-1]
            break
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of numbers and lists, which can be stored in a weights file."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def _pipelines(config: Any) -> Iterator[Any]:
    """Yield the pipelines of a data loader or dataset, including those of wrapped datasets."""
    if isinstance(config, Mapping):
        yield config.get('pipeline')
        config = [config.get('dataset'), config.get('datasets')]
    if isinstance(config, Sequence) and not isinstance(config, str):
        for inner in config:
            yield from _pipelines(inner)


def _steps(pipeline: Any) -> Iterator[Mapping]:
    """Yield the transforms of a pipeline, including nested ones."""
    if isinstance(pipeline, Mapping):
        yield pipeline
        pipeline = list(pipeline.values())
    if isinstance(pipeline, Sequence) and not isinstance(pipeline, str):
        for step in pipeline:
            yield from _steps(step)


def _crop_size(step: Mapping) -> int | None:
    """Return the side of the square that a transform crops or resizes to, or None."""
    size = step.get('crop_size', step.get('scale'))
    if size is None and str(step.get('type')).endswith('Crop'):  # such as RandomCrop
        size = step.get('size')
    if isinstance(size, (tuple, list)) and len(size) == 2 and size[0] == size[1]:
        size = size[0]
    return size if type(size) is int and size > 0 else None
