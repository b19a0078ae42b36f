"""Errors of a training run that cannot start."""


class StartError(RuntimeError):
    """A run cannot start for a reason that its user can remove; the message is one sentence."""
