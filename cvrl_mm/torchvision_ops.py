"""The compiled operators of torchvision, with a check that they match the installed torch."""

import importlib
from types import ModuleType

import torch


def torchvision_ops() -> ModuleType:
    """Import the operators of torchvision.

    Raises:
        RuntimeError: torchvision is missing or was built for another version of torch.
    """
    try:
        return importlib.import_module('torchvision.ops')
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RuntimeError(
            "AVA detection without a compiled mmcv needs torchvision's operators, which do not "
            f'load ({lines[0].rstrip(".")}). The installed torch is {torch.__version__}: run '
            f'"{matching_torchvision(torch.__version__)}".'
        ) from error


def matching_torchvision(torch_version: str) -> str:
    """Return the command that installs the torchvision for a version and build of torch.

    Args:
        torch_version: For example ``2.13.0+cpu``. The part behind the plus sign is the name of
            the index on download.pytorch.org; PyPI's builds of torch have none.
    """
    release, _, build = torch_version.partition('+')
    major, minor = (int(number) for number in release.split('.')[:2])
    # torchvision 0.15 was built for torch 2.0, 0.16 for 2.1, and so on; 0.29 is the first that
    # also runs with later versions of torch.
    wanted = f'=={major - 2}.{minor + 15}.*' if (major, minor) < (2, 14) else '>=0.29'
    index = f' --index-url https://download.pytorch.org/whl/{build}' if build else ''
    return f"pip install --force-reinstall --no-deps 'torchvision{wanted}'{index}"
