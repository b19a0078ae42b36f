"""Report videos that cannot be read."""

from pathlib import Path

from mmengine.dist import all_gather_object, is_main_process
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner


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
        ValueError: An argument is out of range.
    """

    def __init__(self, max_share: float = 0.05, interval: int = 50) -> None:
        if not 0 <= max_share <= 1 or interval < 1:
            raise ValueError(
                'max_share must be in [0, 1] and interval at least 1, got '
                f'max_share={max_share}, interval={interval}.'
            )
        self.max_share = max_share
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Read which videos earlier starts of the run have found."""
        self.path = Path(runner.work_dir) / 'bad_videos.txt'
        # Text mode and splitlines would also split at characters that names may have
        text = self.path.read_bytes().decode(errors='surrogateescape') if self.path.exists() else ''
        self._known = {line.rpartition('\t')[0] for line in text.split('\n')}
        if text[-1:] not in ('', '\n') and is_main_process():  # a kill has cut the last line
            with self.path.open('ab') as file:
                file.write(b'\n')
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
        if new and is_main_process():
            lines = ''.join(f'{filename}\t{reason}\n' for filename, reason in new.items())
            with self.path.open('ab') as file:
                file.write(lines.encode(errors='surrogateescape'))
        replaced, seen = self._totals
        samples = max(seen, len(runner.train_dataloader.dataset))
        if replaced > self.max_share * samples:
            raise RuntimeError(
                f'{replaced} of the {seen} videos drawn so far cannot be read, more than '
                f'max_share={self.max_share:.1%} of {samples}; {self.path} names them. Correct '
                'data_prefix, or train on the list that cvrl check writes, or raise max_share of '
                'BadVideosHook.'
            )


def samples_of(data_batch: object) -> list:
    """Return the data samples of a batch from the loader; empty if it has none."""
    return data_batch.get('data_samples', []) if isinstance(data_batch, dict) else []
