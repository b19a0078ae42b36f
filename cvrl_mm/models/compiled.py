"""Methods that are compiled on a GPU."""

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

# Arguments of torch.compile by type of device; there is no compilation on others. Inductor's own
# choice of layouts makes 2D convolutions channels last, and some 3D convolutions contiguous
COMPILERS: dict[str, dict[str, Any]] = dict(cuda=dict(options=dict(layout_optimization=False)))
SHAPE = '_compiled_shape'  # attribute of a module; None if the compiler has failed


def compiled_on_gpu(method: Callable[..., Any], oldest: str) -> Callable[..., Any]:
    """Compile a method ``(module, x, …)`` of an ``nn.Module`` on a GPU, as one graph.

    Only the shape of ``x`` in the first call is compiled. The method runs eagerly for other
    shapes, on other devices, before version ``oldest`` of PyTorch, and where the compiler fails,
    for example without Triton or with a read-only cache folder. A warning then says so once.
    """

    @wraps(method)
    def run(module: nn.Module, x: Tensor, *args: Any) -> Any:
        if x.device.type in COMPILERS:
            name, shape = type(module).__name__, module.__dict__.setdefault(SHAPE, x.shape)
            if torch.__version__ < oldest:
                _warn(f'{name} runs eagerly: compiling it needs PyTorch {oldest}.')
            elif shape == x.shape:
                try:
                    # Only this module is compiled: DDP's buckets need no split of the graph
                    with torch._dynamo.config.patch(optimize_ddp=False):
                        return _compile(method, x.device.type)(module, x, *args)
                except torch._dynamo.exc.TorchDynamoException as error:
                    module.__dict__[SHAPE] = None
                    _warn(f'{name} runs eagerly: {str(error).strip():.300}')
            elif shape is not None:
                _warn(f'{name} runs eagerly for batches of another shape than {tuple(shape)}.')
        return method(module, x, *args)

    return run


@cache
def _compile(method: Callable[..., Any], device_type: str) -> Callable[..., Any]:
    return torch.compile(method, dynamic=False, fullgraph=True, **COMPILERS[device_type])


@cache
def _warn(message: str) -> None:
    """Log a warning, once."""
    print_log(message, 'current', logging.WARNING)
