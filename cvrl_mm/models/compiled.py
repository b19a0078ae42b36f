"""Methods that are compiled on a GPU, by all ranks or by none."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import cache, wraps
from itertools import count
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from mmengine.logging import print_log
from torch import Size, Tensor, nn
from torch._dynamo.backends.registry import lookup_backend

# Backend of torch.compile and its options by type of device; there is no compilation on others.
# Inductor's own choice of layouts makes 2D convolutions channels last, and some 3D ones contiguous
COMPILERS: dict[str, dict[str, Any]] = dict(cuda=dict(options=dict(layout_optimization=False)))
OLDEST = '2.11'  # of PyTorch: the first version whose graph of the step was checked
WAIT = timedelta(hours=2)  # for ranks that have to compile what others find in their cache
_exchanges = count()


def compiled_on_gpu(method: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a method ``(module, x, …)`` of an ``nn.Module`` on a GPU, as one graph.

    **All ranks of a job run compiled, or all run eagerly.** In a compiled step, the collectives of
    the method and those of DDP come in another order, so that a mixture would hang or add up
    foreign values. In the first call for a module, each rank compiles both directions for the
    shape of ``x``, and waits for the others. If the compiler has failed on one, for example without
    Triton or with a read-only cache folder, all run eagerly, and a warning names the rank and the
    reason. Later calls exchange nothing, and what fails in them is an error.

    Batches of other shapes run eagerly, such as the last one of an epoch; ranks must therefore have
    batches of one shape in each step. If the shape of the first batch does not come again, as when
    a training is resumed at the end of an epoch, the next shape that comes twice in a row is
    compiled in its place. On other devices and before version ``OLDEST`` of PyTorch, the method
    runs eagerly.
    """
    networks: WeakKeyDictionary[nn.Module, _Compiled] = WeakKeyDictionary()

    @wraps(method)
    def run(module: nn.Module, x: Tensor, *args: Any) -> Any:
        if x.device.type not in COMPILERS:
            return method(module, x, *args)
        if torch.__version__ < OLDEST:
            _warn(f'{type(module).__name__} runs eagerly: compiling it needs PyTorch {OLDEST}.')
            return method(module, x, *args)
        if module not in networks:
            networks[module] = _Compiled(method, COMPILERS[x.device.type])
        return networks[module](module, x, *args)

    return run


class _Compiled:
    """A method that is compiled for one module and one shape."""

    def __init__(self, method: Callable[..., Any], how: dict[str, Any]) -> None:
        self.method, self.how = method, how
        self.code: Any = None  # the compiled method; None if all ranks run eagerly
        self.shape: Size | None = None  # for which it is compiled
        self.last: Size | None = None
        self.comes_again = False

    def __call__(self, module: nn.Module, x: Tensor, *args: Any) -> Any:
        is_other = x.shape != self.shape
        if self.shape is None or (is_other and x.shape == self.last and not self.comes_again):
            self.shape = self.last = x.shape
            return self._begin(module, x, *args)
        self.last, self.comes_again = x.shape, self.comes_again or not is_other
        if self.code is None or is_other:
            if self.code is not None:
                name, shape = type(module).__name__, tuple(self.shape)
                _warn(f'{name} runs eagerly for batches of another shape than {shape}.')
            return self.method(module, x, *args)
        return self._run(module, x, *args)

    def _begin(self, module: nn.Module, x: Tensor, *args: Any) -> Any:
        """Compile, agree with the other ranks before anything is computed, and run."""
        failures: str | None = None  # of all ranks, once they are known

        def backend(graph: torch.fx.GraphModule, inputs: list) -> Callable[..., Any]:
            compiler = lookup_backend(self.how.get('backend', 'inductor'))
            options = self.how.get('options')
            code = compiler(graph, inputs, **(dict(config_patches=options) if options else {}))

            def agreed(*tensors: Any) -> Any:
                nonlocal failures
                if failures is None:
                    failures = _exchange('')
                    if failures:
                        raise RuntimeError('Another rank runs eagerly.')
                return code(*tensors)

            return agreed

        # Dynamo counts compilations by code object, and refuses the ninth
        function = self.method
        copy = FunctionType(function.__code__.replace(), function.__globals__)
        self.code = torch.compile(copy, dynamic=False, fullgraph=True, backend=backend)
        try:
            with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
                return self._run(module, x, *args)
        except Exception as error:
            if failures == '':
                raise  # of the step itself
            failures = failures or _exchange(f'{type(error).__name__}: {str(error).strip():.300}')
        self.code, self.comes_again = None, True
        _warn(f'{type(module).__name__} runs eagerly, because it could not be compiled: {failures}')
        return self.method(module, x, *args)

    def _run(self, module: nn.Module, x: Tensor, *args: Any) -> Any:
        # Only this method is compiled: DDP's buckets need no split of the graph
        with torch._dynamo.config.patch(optimize_ddp=False):
            return self.code(module, x, *args)


def _exchange(failure: str) -> str:
    """Tell all ranks why this one could not compile, or ''; return what all of them have told."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return failure
    world: Any = dist.group.WORLD
    number, store = next(_exchanges), world.get_group_store()
    keys = [f'cvrl_mm/compiled/{number}/{rank}' for rank in range(dist.get_world_size())]
    store.set(keys[dist.get_rank()], failure)
    store.wait(keys, WAIT)
    told = [store.get(key).decode() for key in keys]
    return '; '.join(f'rank {rank}: {text}' for rank, text in enumerate(told) if text)


@cache
def _warn(message: str) -> None:
    """Log a warning, once."""
    print_log(message, 'current', logging.WARNING)
