"""Base class of the photometric transforms of a clip."""

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import TypeGuard

import numpy as np
from mmcv.transforms import BaseTransform

from ..datasets.random_source import RandomSource
from .operations import apply_on_host
from .step import Step


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number; numpy's scalars are included."""
    return isinstance(value, Real)


class ClipTransform(BaseTransform, metaclass=ABCMeta):
    """Base class of photometric transforms with one random draw for all images.

    Required and modified key: ``imgs``, a list of (H, W, 3) or an array (T, H, W, 3), uint8
    RGB; it becomes an array. If each clip has its own probability, the key ``clip_index`` is also
    required, which :class:`ConsistentAugment` writes.

    Subclasses draw their steps in :meth:`draw_steps`. The attribute ``slots`` lists operations
    for the device, of which the steps must be a subsequence; it is empty if the transform runs
    only on the host.

    Args:
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: A probability is outside [0, 1], or a sequence does not have two of them.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, prob: float | Sequence[float]) -> None:
        probs = list(prob) if isinstance(prob, Sequence) else [prob]
        if isinstance(prob, Sequence) and len(probs) != 2:
            raise ValueError(
                f'{self._name}: prob must be one number, or two numbers for the two clips, '
                f'got {len(probs)}: {prob}.'
            )
        if not all(is_number(p) and 0 <= p <= 1 for p in probs):
            raise ValueError(f'{self._name}: probabilities must be in [0, 1], got prob={prob}.')
        self.prob = prob

    @property
    def per_clip(self) -> bool:
        """Whether each clip has its own probability."""
        return isinstance(self.prob, Sequence)

    def transform(self, results: dict) -> dict:
        """Draw once and apply the steps to all images.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with augmented images.
        """
        steps = self.draw(np.random, results.get('clip_index'))
        if steps:
            results['imgs'] = apply_on_host(results['imgs'], steps)
        return results

    def draw(self, rng: RandomSource, clip_index: int | None = None) -> list[Step]:
        """Draw the steps for one clip.

        Args:
            rng: Random source: a ``RandomState``, or ``numpy.random`` itself.
            clip_index: Index of the clip in its video; required if each clip has its own
                probability.

        Returns:
            The steps in order; empty if the transform is not applied.

        Raises:
            ValueError: Each clip has its own probability, and ``clip_index`` is missing.
        """
        prob = self.prob
        if isinstance(prob, Sequence):
            if clip_index is None or clip_index >= len(prob):
                raise ValueError(
                    f'{self._name} has one probability per clip, {prob}, but got clip_index='
                    f"{clip_index}; use it in ConsistentAugment(over='clip' or 'frame') after a "
                    'sampler of two clips, or set prob to a single number.'
                )
            prob = prob[clip_index]
        return self.draw_steps(rng) if rng.random_sample() < prob else []

    @abstractmethod
    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the steps, given that the transform is applied."""

    @property
    def _name(self) -> str:
        return self.__class__.__name__

    def _check_range(
        self, name: str, value: Sequence[float], bounds: tuple[float, float]
    ) -> tuple[float, float]:
        """Return ``value`` as (low, high).

        Raises:
            ValueError: ``value`` is not a range within ``bounds``.
        """
        pair = tuple(value) if isinstance(value, Sequence) else ()
        numbers = len(pair) == 2 and all(is_number(v) for v in pair)
        if not numbers or not bounds[0] <= pair[0] <= pair[1] <= bounds[1]:
            raise ValueError(
                f'{self._name}: {name} must be a range (low, high) within '
                f'[{bounds[0]}, {bounds[1]}], got {value!r}.'
            )
        return float(pair[0]), float(pair[1])

    def __repr__(self) -> str:
        settings = ', '.join(f'{k}={v!r}' for k, v in vars(self).items())
        return f'{self._name}({settings})'
