"""Registered names of earlier versions."""

import warnings

from mmengine.registry import Registry


def register_deprecated(registry: Registry, old: str, new: type) -> None:
    """Keep the old registered name of a class for this version, with a deprecation warning.

    Args:
        registry: Where the class is registered.
        old: The name that configs and checkpoints of earlier versions use.
        new: The class under its present name.
    """

    def build(*args: object, **kwargs: object) -> object:
        warnings.warn(
            f'{old} is now called {new.__name__}; the old name will leave in the next version.',
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    registry.register_module(name=old, module=build, force=True)
