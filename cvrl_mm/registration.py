"""Registered names of earlier versions."""

import warnings

from mmengine.registry import Registry


def register_deprecated(registry: Registry, old: str, new: type) -> None:
    """Keep the old registered name of a class for this version, with a deprecation warning.

    Args:
        registry: Registry of the class.
        old: Name in configs and checkpoints of earlier versions.
        new: The class, which has its current name.
    """

    def build(*args: object, **kwargs: object) -> object:
        warnings.warn(
            f'{old} is now called {new.__name__}; the next version will not have the old name.',
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    registry.register_module(name=old, module=build, force=True)
