"""A trained encoder as a plain PyTorch module.

>>> encoder = cvrl_mm.load_encoder('encoder.safetensors')
>>> clips = encoder.transform('video.mp4')    # (10, 3, 32, 256, 256) uint8
>>> feats = encoder.features(clips).mean(0)   # (2048,)
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmaction.models import BaseRecognizer
from mmaction.registry import TRANSFORMS
from mmengine.config import Config
from mmengine.logging import print_log
from torch import Tensor, nn

from ..datasets.frame_folder import open_video
from ..datasets.reader import UnreadableVideoError, VideoFile
from ..datasets.sampling import ClipSample, varying_times
from ..models.backbone import global_average_pool
from ..options import RANDOM
from ..text import one_line
from .description import INFLATED, PREFIX, ClipInput, architecture_of, build_backbone
from .files import extract_backbone, locate_weights, save_weights
from .recognizers import build_recognizer

NUM_CLIPS = 10  # evenly spaced, per video (Sec. 4.1)


class CropFrames:
    """Resize the short side of each frame to the size of the clips and crop the centre.

    It must precede the decoding in a pipeline. The reader then crops each frame when it is decoded,
    so that memory holds only the crops.
    """

    def __init__(self, size: int) -> None:
        steps = dict(type='Resize', scale=(-1, size)), dict(type='CenterCrop', crop_size=size)
        self.steps = [TRANSFORMS.build(step) for step in steps]

    def __call__(self, results: dict) -> dict:
        """Make the reader crop."""
        results['video_reader'].prepare = self.crop
        return results

    def crop(self, image: np.ndarray) -> np.ndarray:
        """Return the crop of a frame, (size, size, 3)."""
        results = dict(imgs=[image], img_shape=image.shape[:2], modality='RGB')
        for step in self.steps:
            results = step(results)
        return results['imgs'][0].copy()  # not a view of the whole resized frame


def clip_pipeline(clip_input: ClipInput, num_clips: int) -> list[Callable[[dict], dict]]:
    """Build the pipeline from a file to clips (Sec. 4.1: 10 clips of 32 frames, stride 2).

    Args:
        clip_input: Length, frame interval and size of the clips.
        num_clips: Number of evenly spaced clips per video.

    Returns:
        Transforms that open the file, choose the frames, crop and decode them, and pack the clips.
    """
    chosen = {k: getattr(clip_input, k) for k in ('clip_len', 'frame_interval', 'fps')}
    return [
        TRANSFORMS.build(dict(type='VideoFileInit')),
        TRANSFORMS.build(dict(type='EvenClipSample', num_clips=num_clips, **chosen)),
        CropFrames(clip_input.size),
        TRANSFORMS.build(dict(type='VideoFileDecode')),
        TRANSFORMS.build(dict(type='FormatShape', input_format='NCTHW')),
        TRANSFORMS.build(dict(type='PackActionInputs')),
    ]


class Encoder(nn.Module):
    """Compute feature vectors of video clips.

    Args:
        backbone: Network that takes normalised clips, (N, 3, T, H, W).
        clip_input: Size and normalisation of the clips that the backbone was trained on.
        meta: Origin of the weights; see :func:`extract_backbone`.
    """

    channels = 'RGB'
    input_range = (0, 255)  # of uint8 clips; floating-point clips lie in [0, 1]

    def __init__(
        self, backbone: nn.Module, clip_input: ClipInput, meta: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.clip_input = clip_input
        self.meta = dict(meta or {})
        for name in ('mean', 'std'):
            value = torch.tensor(getattr(clip_input, name)).view(1, 3, 1, 1, 1)
            self.register_buffer(name, value, persistent=False)

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, model: BaseRecognizer, meta: Mapping[str, Any] | None = None) -> 'Encoder':
        """Wrap the backbone of a recognizer and the normalisation of its data preprocessor.

        The backbone is not copied, and its device and mode are not changed. The length and size of
        ``clip_input`` are the default ones, as a recognizer does not have them.

        Args:
            model: The recognizer.
            meta: Origin of the weights.

        Raises:
            ValueError: The preprocessor swaps the channels; encoders take RGB.
        """
        pixels = model.data_preprocessor
        if getattr(pixels, 'to_rgb', False):
            raise ValueError('data_preprocessor.to_rgb swaps the channels; encoders take RGB.')
        scale: dict[str, Any] = dict(mean=(0.0,) * 3, std=(1.0,) * 3)
        scale |= {k: getattr(pixels, k).flatten().tolist() for k in scale if hasattr(pixels, k)}
        device = next(model.parameters()).device
        return cls(model.backbone, ClipInput(**scale), meta).to(device)

    def __repr__(self) -> str:
        """Return one line, also in a notebook."""
        network = type(self.backbone).__name__
        millions = sum(x.numel() for x in self.backbone.parameters()) / 1e6
        return f'Encoder({network} of {millions:.1f} M weights, {self.clip_input})'

    @property
    def clip_len(self) -> int:
        """Frames per clip."""
        return self.clip_input.clip_len

    @property
    def frame_interval(self) -> int:
        """Distance between neighbouring frames of a clip, in frames of the video."""
        return self.clip_input.frame_interval

    @property
    def size(self) -> int:
        """Height and width of a clip in pixels."""
        return self.clip_input.size

    def forward(self, clips: Tensor) -> Tensor:
        """Normalise clips, encode them and average the features over time and space.

        Gradients are recorded.

        Args:
            clips: (N, 3, T, H, W), uint8, or floating point in [0, 1].

        Returns:
            Features, (N, C), in the data type of the encoder.

        Raises:
            ValueError: The clips have a wrong shape, data type or range.
        """
        self._check(clips)
        scale = 1 if clips.dtype == torch.uint8 else 255
        x = (clips.to(self.mean.dtype) * scale - self.mean) / self.std
        return global_average_pool(self.backbone(x))

    @torch.no_grad()
    def features(self, clips: Tensor | np.ndarray) -> Tensor:
        """Encode clips without recording gradients.

        Args:
            clips: (N, 3, T, H, W), uint8, or floating point in [0, 1]. They are moved to the
                encoder's device. T, H and W may differ from ``clip_len`` and ``size``.

        Returns:
            Features, (N, C) float32.

        Raises:
            ValueError: The clips have a wrong shape, data type or range, or the encoder is in
                training mode, in which clips change each other's features.
        """
        if self.backbone.training:
            raise ValueError('The encoder is in training mode; call encoder.eval() first.')
        return self(torch.as_tensor(clips).to(self.mean.device)).float()

    def _check(self, clips: Tensor) -> None:
        """Refuse clips of which the features would be wrong."""
        if clips.ndim != 5 or clips.shape[1] != 3:
            raise ValueError(f'Clips must be (N, 3, T, H, W), got {tuple(clips.shape)}.')
        if not clips.is_floating_point():
            if clips.dtype != torch.uint8:
                raise ValueError(f'Clips must be uint8 or floating point, got {clips.dtype}.')
        elif not torch.compiler.is_compiling():  # which knows no values
            low, high = clips.min().item(), clips.max().item()
            if not (low >= -1e-3 and high <= 1 + 1e-3):  # also rejects NaN
                given = f'got {low:g} to {high:g}; divide by 255, or give uint8'
                raise ValueError(f'Clips of floating-point numbers must lie in [0, 1], {given}.')

    def transform(
        self,
        video: str | Path | np.ndarray | Tensor,
        num_clips: int = NUM_CLIPS,
        fps: float | None = None,
    ) -> Tensor:
        """Sample clips from a video: evenly spaced in time, with a centre crop.

        Args:
            video: Path of a file, or RGB frames, (T, H, W, 3) uint8.
            num_clips: Number of clips (Sec. 4.1: 10).
            fps: Frames per second of an array; the rate of a file is read from it. An encoder with
                ``clip_input.fps`` needs it to count the frames at that rate. If it is None, the
                frames of the array are counted as they are.

        Returns:
            (num_clips, 3, clip_len, size, size) uint8.

        Raises:
            UnreadableVideoError: The file does not exist or cannot be decoded.
            ValueError: The frames have a wrong shape or data type.
        """
        load, sample, crop, decode, *pack = clip_pipeline(self.clip_input, num_clips)
        results: dict = dict(label=-1, start_index=0, modality='RGB')
        if isinstance(video, str | Path):
            results = decode(crop(sample(load(dict(results, filename=str(video))))))
        else:
            frames = np.asarray(video)
            if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8:
                given = f'{frames.dtype} {frames.shape}'
                raise ValueError(f'Frames must be uint8 of (T, H, W, 3), got {given}.')
            results = sample(dict(results, total_frames=len(frames), avg_fps=fps))
            cropped = CropFrames(self.size).crop
            results['imgs'] = [cropped(frames[i]) for i in results['frame_inds']]
        for step in pack:
            results = step(results)
        return results['inputs']

    def windows(
        self, video: str | Path, every_seconds: float, batch_size: int = 8
    ) -> Iterator[tuple[Tensor, np.ndarray]]:
        """Sample one clip at regular times of a video; each frame is decoded once.

        The clips start every ``every_seconds`` and lie completely in the video; a video that is
        shorter than a clip has none. Memory is needed for the frames of one clip and for the clips
        of a batch, however long the video is.

        Args:
            video: Path of a file.
            every_seconds: Distance between the starts of two clips.
            batch_size: Largest number of clips that are returned together.

        Yields:
            Clips, (n, 3, clip_len, size, size) uint8, and the start and end of each in seconds,
            (n, 2).

        Raises:
            UnreadableVideoError: The file does not exist, a frame of a clip cannot be decoded or
                resized, or the frame rate is unknown.
        """
        with open_video(video) as reader:
            if not reader.rate > 0:
                raise UnreadableVideoError(str(video), 'its frame rate is unknown')
            chosen, bounds = _regular_clips(self.clip_input, every_seconds, reader)
            reader.prepare = CropFrames(self.size).crop
            clips = _decoded_clips(reader, chosen)
            for first in range(0, len(chosen), batch_size):
                batch = np.stack([*islice(clips, batch_size)])
                inputs = torch.from_numpy(batch).permute(0, 4, 1, 2, 3)
                yield inputs, bounds[first : first + batch_size]

    def save(self, path: str | Path) -> Path:
        """Save the weights and their description for :func:`load_encoder`.

        Args:
            path: A file name that ends in ``.safetensors`` or ``.pth``.

        Returns:
            The path.

        Raises:
            ValueError: The encoder was built by hand, without the config of its backbone.
        """
        if 'backbone' not in self.meta:
            raise ValueError("This encoder has no meta['backbone'], the config of its backbone.")
        state = {f'{PREFIX}{k}': v.detach().cpu() for k, v in self.backbone.state_dict().items()}
        meta = self.meta | dict(input=self.clip_input.to_dict())
        return save_weights(dict(state_dict=state, meta=meta), path)


def _regular_clips(
    clip_input: ClipInput, every_seconds: float, reader: VideoFile
) -> tuple[np.ndarray, np.ndarray]:
    """Choose clips that start at regular times and lie completely in the video.

    Returns:
        The frames of T clips, (T, clip_len), and their starts and ends in seconds, (T, 2).
    """
    clip_len, interval = clip_input.clip_len, clip_input.frame_interval
    rate = clip_input.fps or reader.rate  # of the counted frames
    times = varying_times(reader.times)
    counts = dict(total_frames=reader.num_frames, avg_fps=reader.rate, frame_times=times)
    frames = ClipSample(clip_len, interval, rate).counted_frames(counts)  # (L,)
    span = (clip_len - 1) * interval + 1
    step = max(1, every_seconds * rate)
    starts = np.unique(np.arange(0, len(frames) - span + 0.5, step).round().astype(int))
    chosen = frames[starts[:, None] + np.arange(clip_len) * interval]
    if times is not None:
        return chosen, (starts[:, None] + [0, span]) / rate
    bounds = np.append(reader.times, reader.times[-1] + 1 / reader.rate)
    return chosen, bounds[chosen[:, [0, -1]] + [0, 1]]


def _decoded_clips(reader: VideoFile, chosen: np.ndarray) -> Iterator[np.ndarray]:
    """Yield clips of given frames, (T, clip_len), in ascending order; decode the video once."""
    frames: Iterator[Any] = chain(reader.numbered_frames(), [(math.inf, None)])  # the end
    wanted = {*chosen.ravel().tolist()}
    images: dict[float, np.ndarray] = {}
    reached = -1.0
    for clip in chosen.tolist():
        images = {i: image for i, image in images.items() if i >= clip[0]}
        while reached < clip[-1]:
            reached, frame = next(frames)
            if reached in wanted:
                try:
                    images[reached] = reader.to_image(frame)
                except Exception as error:  # of many kinds for unusual frames
                    raise UnreadableVideoError(reader.name, one_line(error)) from error
        if missing := [i for i in clip if i not in images]:
            raise UnreadableVideoError(reader.name, f'frame {missing[0]} cannot be decoded')
        yield np.stack([images[i] for i in clip])


def load_encoder(checkpoint: str | Path, config: Config | str | Path | None = None) -> Encoder:
    """Load a trained encoder from a weights file of any supported origin.

    Args:
        checkpoint: A ``.safetensors`` or ``.pth`` file (converted, or a training checkpoint), a
            folder with ``encoder.safetensors``, ``encoder.pth`` or ``classifier.pth``, an
            ``https://`` address, or ``hf://OWNER/NAME`` for a repository on the Hugging Face hub
            with such a file.
            ``'tiny'`` is the encoder of this package (``tiny.md``).
            ``'random'`` builds the encoder of the config with random weights and the batch norm
            statistics of its initialisation (mean 0, variance 1). Training replaces these even if
            it changes no weight; :func:`calibrate` sets them from training clips.
        config: A config, or its path, from which the normalisation (``model.data_preprocessor``)
            and the clips (pipelines) are read and, for weights files that do not describe it, the
            backbone (``model.backbone``).

    Returns:
        The encoder on the CPU, in evaluation mode.

    Raises:
        OSError: The file does not exist.
        ValueError: The file contains more than weights, is damaged, does not fit the
            architecture, or does not describe its architecture and there is no config.
    """
    cfg: Any = Config.fromfile(config) if isinstance(config, str | Path) else config
    if str(checkpoint) == RANDOM:
        if cfg is None:
            raise ValueError('An untrained encoder needs a config that defines its architecture.')
        meta = dict(source=RANDOM, backbone=architecture_of(cfg.model.backbone.to_dict()))
        backbone = build_recognizer(cfg, RANDOM).backbone
        return Encoder(backbone, ClipInput.from_config(cfg), meta).eval()
    path = locate_weights(checkpoint)
    found = extract_backbone(path)
    meta = found['meta']
    if cfg is not None:
        # Weights would also fit a network of another padding, and give wrong features
        meta.setdefault('backbone', architecture_of(cfg.model.backbone.to_dict()))
        meta['input'] = ClipInput.from_config(cfg).to_dict()
    if 'backbone' not in meta:
        what = f'{checkpoint} does not describe its architecture'
        raise ValueError(f'{what}; name the config of its training (config=, or --config).')
    if 'input' not in meta and meta.get('inflated'):
        print_log(INFLATED.format(checkpoint), 'current', logging.WARNING)
    clip_input = ClipInput(**meta.setdefault('input', {}))
    backbone = build_backbone(meta['backbone'], found, str(checkpoint))
    return Encoder(backbone, clip_input, meta).eval()
