"""A data preprocessor with photometric augmentation on the device."""

from collections.abc import Sequence

import numpy as np
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmaction.utils import SampleList
from torch import Tensor

from ..models.compiled import compiled_on_gpu
from ..models.preprocessor import ClipDataPreprocessor
from .consistent import ClipTransform, Rng, Step
from .photometric import apply_on_device, parameter_table


@MODELS.register_module()
class ClipAugmentDataPreprocessor(ClipDataPreprocessor):
    """Augment clips on the device with one random draw per clip, and normalise them.

    Replaces the photometric transforms at the end of the loader's
    ``ConsistentAugment(over='clip')``; crop, resize and flip remain there. For the same draw, the
    images are equal to the host's up to 2/255, except for one value in a million (a tie
    that is rounded differently and then amplified). At test time, nothing is augmented.

    All parameters of a batch are drawn on the host and copied once. On a GPU, the operations are
    compiled with ``torch.compile`` for one shape of batches.

    The seed of a batch comes from torch's generator, so that a recomputed chunk
    (``CVRL(chunk_size=…)``) gets the same augmentation.

    Args:
        transforms: ``Clip…`` transforms or their configs, in order; not ``ClipRandAugment``,
            whose operations run only on the host.
        kwargs: Further arguments of ``ActionDataPreprocessor``: ``mean``, ``std``, …

    Raises:
        ValueError: A transform cannot run on the device.
    """

    def __init__(self, transforms: Sequence[dict | ClipTransform], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.transforms = [t if callable(t) else TRANSFORMS.build(t) for t in transforms]
        for transform in self.transforms:
            if not isinstance(transform, ClipTransform) or not transform.slots:
                raise ValueError(
                    f'{type(transform).__name__} does not run on the device; keep it in the '
                    "loader's ConsistentAugment."
                )
        self.slots = tuple(slot for t in self.transforms for slot in t.slots)
        self.num_taps = max((getattr(t, 'num_taps', 1) for t in self.transforms), default=1)

    def preprocess(
        self, inputs: Tensor | list[Tensor], data_samples: SampleList, training: bool = False
    ) -> tuple[Tensor, SampleList]:
        """Augment in training, then normalise.

        Args:
            inputs: N pairs of clips, (2, 3, T, H, W) uint8 RGB, as a list or stacked.
            data_samples: N samples; not changed.
            training: Whether to augment.

        Returns:
            The batch, (N, 2, 3, T, H, W), and the samples.
        """
        if training:
            seed = int(torch.randint(2**31, ()))
            inputs = self.augment(inputs, self.draw(len(inputs), np.random.RandomState(seed)))
        return super().preprocess(inputs, data_samples, training)

    def draw(self, num_videos: int, rng: Rng) -> list[list[Step]]:
        """Draw the augmentation of every clip.

        Args:
            num_videos: N.
            rng: Random source.

        Returns:
            Steps of the 2N clips; the two clips of a video are adjacent.
        """
        return [
            [step for t in self.transforms for step in t.draw(rng, clip)]
            for _ in range(num_videos)
            for clip in (0, 1)
        ]

    @torch.no_grad()
    def augment(self, inputs: Tensor | list[Tensor], steps: list[list[Step]]) -> Tensor:
        """Apply the drawn steps.

        Args:
            inputs: N pairs of clips, (2, 3, T, H, W) uint8 RGB, as a list or stacked.
            steps: Steps of the 2N clips.

        Returns:
            The augmented pairs, (N, 2, 3, T, H, W), in the memory layout of the inputs.

        Raises:
            ValueError: The inputs have a different type or shape.
        """
        first = inputs[0]
        if first.dtype != torch.uint8 or first.ndim != 5 or first.shape[:2] != (2, 3):
            raise ValueError(
                'ClipAugmentDataPreprocessor needs uint8 RGB clips, two per video, '
                f'(2, 3, T, H, W), got {first.dtype} of {tuple(first.shape)}.'
            )
        # (2N, 3, T, H, W); cat keeps the memory layout of the clips
        clips = torch.cat(inputs) if isinstance(inputs, list) else inputs.flatten(0, 1)
        params = parameter_table(steps, self.slots, self.num_taps)
        if clips.is_cuda:
            params = params.pin_memory().to(clips.device, non_blocking=True)
        return self._augment(clips, params).unflatten(0, (-1, 2))

    def _augment_eagerly(self, clips: Tensor, params: Tensor) -> Tensor:
        return apply_on_device(clips, params, self.slots, self.num_taps)

    _augment = compiled_on_gpu(_augment_eagerly)
