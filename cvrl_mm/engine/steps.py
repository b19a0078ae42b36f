"""What is done in each step: unreadable videos, mixed precision, a finite loss, weight decay."""

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from mmengine.device import get_device
from mmengine.dist import all_gather_object, is_main_process
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from mmengine.registry import HOOKS, OPTIM_WRAPPERS
from mmengine.runner import Runner
from mmengine.runner.amp import autocast
from torch import Tensor, nn


@HOOKS.register_module()
class BadVideosHook(Hook):
    """Report videos that were replaced because they cannot be read; stop if they are too many.

    ``VideoListDataset`` reports these videos with the samples. Each video is logged once and added
    to ``bad_videos.txt`` in the work dir as path, tab, reason; a path may hold any characters but a
    newline, and any bytes. Ranks exchange their reports every ``interval`` steps, so that all of
    them stop at the same step.

    Args:
        max_share: Largest share of an epoch's samples that may be replaced; in a training by steps,
            of all samples so far, once they are as many as the list has videos.
        interval: Steps between two exchanges.

    Raises:
        ValueError: ``max_share`` is out of range.
    """

    def __init__(self, max_share: float = 0.05, interval: int = 50) -> None:
        if not 0 <= max_share <= 1:
            raise ValueError(f'max_share must be in [0, 1], got {max_share}.')
        self.max_share = max_share
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Read which videos earlier starts of the run have found."""
        self.path = Path(runner.work_dir) / 'bad_videos.txt'
        # Text mode and splitlines would also split at characters that names may have
        text = self.path.read_bytes().decode(errors='surrogateescape') if self.path.exists() else ''
        self._known = {line.rpartition('\t')[0] for line in text.split('\n')}
        self._found: dict[str, str] = {}  # reasons by path, of this rank since the last exchange
        self._seen = self._replaced = 0
        self._totals = [0, 0]  # of this epoch, over all ranks

    def before_train_epoch(self, runner: Runner) -> None:
        """Reset the counts of the epoch."""
        self._totals = [0, 0]

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Count the replaced samples of the batch."""
        for sample in samples_of(data_batch):
            unreadable = sample.get('unreadable', [])
            self._seen += 1
            self._replaced += bool(unreadable)
            self._found.update(unreadable)
        if self.every_n_train_iters(runner, self.interval):
            self._exchange(runner)

    def after_train_epoch(self, runner: Runner) -> None:
        """Report the share of the epoch."""
        self._exchange(runner)
        replaced, seen = self._totals
        if replaced:
            runner.logger.info(
                f'Epoch {runner.epoch + 1}: {replaced} of {seen} samples ({replaced / seen:.2%}) '
                f'were replaced because their videos cannot be read; {self.path} names them.'
            )

    def _exchange(self, runner: Runner) -> None:
        """Collect the reports of all ranks.

        Raises:
            RuntimeError: Too many videos cannot be read.
        """
        reports = all_gather_object((self._seen, self._replaced, self._found))
        self._seen, self._replaced, self._found = 0, 0, {}
        new: dict[str, str] = {}
        for seen, replaced, found in reports:
            self._totals[0] += replaced
            self._totals[1] += seen
            new |= {name: reason for name, reason in found.items() if name not in self._known}
        self._known |= new.keys()
        for filename, reason in new.items():
            runner.logger.warning(f'{filename} cannot be read and is replaced: {reason}')
            if is_main_process():
                with self.path.open('ab') as file:
                    file.write(f'{filename}\t{reason}\n'.encode(errors='surrogateescape'))
        replaced, seen = self._totals
        samples = max(seen, len(runner.train_dataloader.dataset))
        if replaced > self.max_share * samples:
            raise RuntimeError(
                f'{replaced} of the {seen} videos drawn so far cannot be read, more than '
                f'max_share={self.max_share:.1%} of {samples}; {self.path} names them. Correct '
                'data_prefix, or train on the list that cvrl check writes, or raise max_share of '
                'BadVideosHook.'
            )


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Run forward passes under bfloat16 autocast on an accelerator, in float32 on a CPU.

    bfloat16 has the range of float32 and needs no loss scaling. mmengine's ``AmpOptimWrapper``
    always uses a loss scaler and does not support CPUs. On CPUs, oneDNN 3.12 (in torch 2.13)
    computes some 3D convolutions in bfloat16 incorrectly. Without AMX these are the gradients of
    kernels that are longer than the clip (3 over 2 frames, 5 over 4), and of strides over a single
    pixel, which also write outside their memory. With AMX they are outputs of a width of one pixel
    (pytorch/pytorch#169688).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast; gradients are accumulated as in ``OptimWrapper``."""
        enabled = get_device() != 'cpu'
        with super().optim_context(model), autocast(dtype=torch.bfloat16, enabled=enabled):
            yield


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at a loss that is NaN or infinite, with an error that names the step and its files."""

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: dict | None, outputs: dict
    ) -> None:
        """Check the loss of the step, before a checkpoint is saved.

        Raises:
            FloatingPointError: The loss is not finite.
        """
        loss = float(outputs['loss'].detach())
        if not math.isfinite(loss):
            rates = {lr for rates in runner.optim_wrapper.get_lr().values() for lr in rates}
            files = [str(sample.get('filename')) for sample in samples_of(data_batch)]
            raise FloatingPointError(
                f'The loss of step {runner.iter + 1} is {loss} at a learning rate of '
                f'{max(rates):.6g}. Lower the learning rate, or inspect the files of the batch: '
                f'{", ".join(files)}.'
            )


@HOOKS.register_module()
class RegularizationLossHook(Hook):
    """Log the contribution of weight decay to the objective (CVRL, Figure 5).

    ``regularization_loss`` is half the weight decay times the squared norm of the decayed
    parameters. It is only logged, and only if there are some; the optimiser applies the decay.
    """

    @torch.no_grad()
    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Update the logged scalar."""
        # Groups with the same decay are merged: mmengine may make one group per parameter
        decayed: dict[float, list[Tensor]] = defaultdict(list)
        for group in runner.optim_wrapper.optimizer.param_groups:
            decayed[group['weight_decay']] += group['params']
        penalties = [
            decay / 2 * torch.stack(torch._foreach_norm(parameters)).square().sum()
            for decay, parameters in decayed.items()
            if decay > 0
        ]
        if penalties:
            total = torch.stack(penalties).sum()
            runner.message_hub.update_scalar('train/regularization_loss', total)


def samples_of(data_batch: object) -> list:
    """Return the data samples of a batch from the loader; empty if it has none."""
    return data_batch.get('data_samples', []) if isinstance(data_batch, dict) else []
