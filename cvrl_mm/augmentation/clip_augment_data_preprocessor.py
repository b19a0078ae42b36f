"""A data preprocessor that changes colour and sharpness on the device."""

from collections.abc import Sequence

import numpy as np
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmaction.utils import SampleList
from torch import Tensor

from cvrl_mm.datasets.random_source import RandomSource
from cvrl_mm.models.clip_data_preprocessor import ClipDataPreprocessor

from . import device_operations as batch_photometric
from .clip_rand_augment import ClipRandAugment
from .clip_transform import ClipTransform
from .host_operations import Step, merge_steps


@MODELS.register_module()
class ClipAugmentDataPreprocessor(ClipDataPreprocessor):
    """Augment clips on the device, each with its own draw, then do what the stock one does.

    It takes the place of the photometric transforms at the end of the loader's
    ``ConsistentAugment(over='clip')`` and gives their images for the same draw, to 2/255 but
    in one value of a million (a tie that rounds the other way, then is amplified). The loader
    keeps crop, resize and flip. At test time nothing is augmented.

    Draws follow torch's generator, so that a chunk that is computed again
    (``CVRL(chunk_size=…)``) gets the same augmentation.

    Args:
        transforms: ``Clip…`` transforms, or their configs, in order; not ``ClipRandAugment``,
            whose operations are Pillow's.
        kwargs: What ``ActionDataPreprocessor`` takes: ``mean``, ``std``, …

    Raises:
        ValueError: a transform is not one of these.
    """

    def __init__(self, transforms: Sequence[dict | ClipTransform], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.transforms = [t if callable(t) else TRANSFORMS.build(t) for t in transforms]
        strangers = [
            t
            for t in self.transforms
            if not isinstance(t, ClipTransform) or isinstance(t, ClipRandAugment)
        ]
        if strangers:
            raise ValueError(
                'ClipAugmentDataPreprocessor runs Clip… transforms alone, and not ClipRandAugment; '
                f"leave the others to the loader's ConsistentAugment: {strangers}."
            )

    def preprocess(
        self, inputs: Tensor | list[Tensor], data_samples: SampleList, training: bool = False
    ) -> tuple[Tensor, SampleList]:
        """Augment in training, then normalise.

        Args:
            inputs: N pairs of clips, (2, 3, T, H, W) uint8 RGB, as a list or stacked.
            data_samples: N samples, left as they are.
            training: Whether to augment.

        Returns:
            The batch, (N, 2, 3, T, H, W), and the samples.

        Raises:
            ValueError: inputs to be augmented are something else.
        """
        if training:
            self._check(inputs)
            seed = int(torch.randint(2**31, ()))
            inputs = self.augment(inputs, self.draw(len(inputs), np.random.RandomState(seed)))
        return super().preprocess(inputs, data_samples, training)

    def draw(self, num_videos: int, rng: RandomSource) -> list[list[Step]]:
        """Draw the augmentation of every clip.

        Args:
            num_videos: N.
            rng: Random source.

        Returns:
            Operations of the 2N clips; the two of a video are neighbours.
        """
        return [
            [step for t in self.transforms for step in merge_steps(t.draw(rng, clip))]
            for _ in range(num_videos)
            for clip in (0, 1)
        ]

    @torch.no_grad()
    def augment(self, inputs: Tensor | list[Tensor], steps: list[list[Step]]) -> list[Tensor]:
        """Apply what was drawn.

        Args:
            inputs: N pairs of clips, (2, 3, T, H, W) uint8 RGB, as a list or stacked.
            steps: Operations of the 2N clips.

        Returns:
            N augmented pairs of the same shape.
        """
        clips = torch.cat(list(inputs))  # (2N, 3, T, H, W)
        with torch.autocast(clips.device.type, enabled=False):  # the blur needs all its bits
            return list(batch_photometric.apply_steps(clips, steps).split(2))

    @staticmethod
    def _check(inputs: Tensor | list[Tensor]) -> None:
        shapes = {(x.dtype, tuple(x.shape)) for x in inputs}
        dtype, shape = next(iter(shapes))
        if len(shapes) > 1 or dtype != torch.uint8 or len(shape) != 5 or shape[:2] != (2, 3):
            raise ValueError(
                'ClipAugmentDataPreprocessor takes uint8 RGB clips of one size, two a video, '
                f'(2, 3, T, H, W), got {sorted(map(str, shapes))}; end the pipeline with '
                "FormatShape(input_format='NCTHW') and PackActionInputs."
            )
