"""Sampling and augmentation of clips."""

from .interval_sampling import TemporalIntervalSample

__all__ = ['TemporalIntervalSample']
