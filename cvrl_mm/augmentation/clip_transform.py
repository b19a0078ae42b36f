"""What the photometric transforms of a clip have in common."""

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import TypeGuard

import numpy as np
from mmcv.transforms import BaseTransform

from ..datasets.random_source import RandomSource
from . import host_operations as photometric
from .host_operations import Step


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, also one of numpy's, which mypy takes for no ``Real``."""
    return isinstance(value, Real)


class ClipTransform(BaseTransform, metaclass=ABCMeta):
    """A photometric transform that draws once for all images of the list.

    Required and modified key: ``imgs``, a list of (H, W, 3) or an array (T, H, W, 3), uint8
    RGB; an array afterwards. With a probability for each clip also ``clip_index``, which
    :class:`ConsistentAugment` writes.

    Args:
        prob: Probability of doing anything: a number, or one for each of the two clips.

    Raises:
        ValueError: a probability lies outside of [0, 1], or there are not two of them.
    """

    def __init__(self, prob: float | Sequence[float]) -> None:
        probs = list(prob) if isinstance(prob, Sequence) else [prob]
        if isinstance(prob, Sequence) and len(probs) != 2:
            raise ValueError(
                f'{self._name}: prob must be a number or one for each of the two clips, '
                f'got {len(probs)}: {prob}.'
            )
        if not all(is_number(p) and 0 <= p <= 1 for p in probs):
            raise ValueError(f'{self._name}: a probability lies in [0, 1], got prob={prob}.')
        self.prob = prob

    @property
    def per_clip(self) -> bool:
        """Whether each clip has a probability of its own."""
        return isinstance(self.prob, Sequence)

    def transform(self, results: dict) -> dict:
        """Draw once and apply that to all images.

        Args:
            results: A sample on its way through the pipeline.

        Returns:
            The same dict with changed images.
        """
        steps = self.draw(np.random, results.get('clip_index'))
        if steps:
            results['imgs'] = photometric.apply_steps(results['imgs'], steps)
        return results

    def draw(self, rng: RandomSource, clip_index: int | None = None) -> list[Step]:
        """Draw what happens to one clip.

        Args:
            rng: Random source: a ``RandomState``, or ``numpy.random`` itself.
            clip_index: Which clip of the video it is; needed with a probability for each.

        Returns:
            Operations and their parameters in order; empty where nothing is to happen.

        Raises:
            ValueError: each clip has a probability of its own and the clip is not known.
        """
        prob = self.prob
        if isinstance(prob, Sequence):
            if clip_index is None or clip_index >= len(prob):
                raise ValueError(
                    f'{self._name} has a probability for each of two clips, {prob}, but stands '
                    f"at clip_index={clip_index}; put it into ConsistentAugment(over='clip' or "
                    "'frame') behind a sampler of two clips, or give prob one number."
                )
            prob = prob[clip_index]
        return self.draw_steps(rng) if rng.random_sample() < prob else []

    @abstractmethod
    def draw_steps(self, rng: RandomSource) -> list[Step]:
        """Draw the operations and their parameters, given that something happens."""

    @property
    def _name(self) -> str:
        return self.__class__.__name__

    def _check_range(
        self, name: str, value: Sequence[float], bounds: tuple[float, float]
    ) -> tuple[float, float]:
        """Return ``value`` as (low, high) if it is a range within ``bounds``.

        Raises:
            ValueError: it is not.
        """
        pair = tuple(value) if isinstance(value, Sequence) else ()
        numbers = len(pair) == 2 and all(is_number(v) for v in pair)
        if not numbers or not bounds[0] <= pair[0] <= pair[1] <= bounds[1]:
            raise ValueError(
                f'{self._name}: {name} is a range (low, high) within '
                f'[{bounds[0]}, {bounds[1]}], got {value!r}.'
            )
        return float(pair[0]), float(pair[1])

    def __repr__(self) -> str:
        settings = ', '.join(f'{k}={v!r}' for k, v in vars(self).items())
        return f'{self._name}({settings})'
