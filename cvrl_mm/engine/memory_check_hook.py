"""Compare the memory of a training with that of the GPU."""

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from cvrl_mm.models.training_memory import (
    GIB,
    USABLE_SHARE,
    exceeds_indices,
    memory_advice,
    training_memory,
)

from ..models.backbone import MAX_ELEMENTS


@HOOKS.register_module()
class MemoryCheckHook(Hook):
    """Stop before the first step if a training does not fit into the memory of the GPU.

    The memory is counted by :func:`cvrl_mm.models.training_memory.training_memory`. If the training
    fits but leaves little memory for the parts that are not counted, the hook logs a warning.
    Nothing is checked without a GPU, or if the pipeline does not determine the size of a sample.
    """

    def before_train(self, runner: Runner) -> None:
        """Count the memory and compare it with the GPU.

        Raises:
            RuntimeError: The training needs more memory than the GPU has, or its tensors have more
                elements than the kernels of batch norm can index.
        """
        if not torch.cuda.is_available():
            return
        memory = training_memory(runner.cfg)
        if memory is not None and exceeds_indices(runner.cfg, memory):
            raise RuntimeError(
                f'A tensor of this training has {memory.largest_tensor:,} elements. In channels '
                f'last, SyncBatchNorm can index fewer than {MAX_ELEMENTS:,}: set '
                'model.backbone.channels_last=False, or lower train_dataloader.batch_size.'
            )
        card = torch.cuda.get_device_properties(torch.cuda.current_device())
        limit = USABLE_SHARE * card.total_memory
        if memory is None or memory.total <= limit:
            return
        said = (
            f'This training needs {memory} per GPU by count; {card.name} has '
            f'{card.total_memory / GIB:.1f} GiB, of which about {limit / GIB:.0f} can be used: '
            f'{memory_advice(runner.cfg, limit)}.'
        )
        if memory.total > card.total_memory:
            raise RuntimeError(said)
        runner.logger.warning(said)
