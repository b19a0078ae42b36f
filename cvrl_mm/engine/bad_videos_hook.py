"""A record of the videos that cannot be read."""

import atexit
from pathlib import Path

from mmengine.dist import all_gather_object, is_main_process
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from cvrl_mm.datasets.crash_log import CRASHED
from cvrl_mm.datasets.video_list_dataset import VideoListDataset

from .batches import samples_of


@HOOKS.register_module()
class BadVideosHook(Hook):
    """Name the videos that others had to stand in for, and stop when they are too many.

    ``VideoListDataset`` reports them with the samples. Each is logged once and written to
    ``bad_videos.txt`` in the work dir, path and reason apart by a tab, whichever rank and
    worker met it. Ranks compare notes every ``interval`` steps, so that all of them stop at the
    same step.

    A video at which the decoder crashes takes its worker and the run with it. The run started
    again knows it from ``bad_videos.txt`` and has others stand in for it from the beginning.

    Args:
        max_share: Share of an epoch's samples up to which training goes on.
        interval: Steps between looks.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(self, max_share: float = 0.05, interval: int = 50) -> None:
        if not 0 <= max_share <= 1 or interval < 1:
            raise ValueError(
                'max_share lies in [0, 1] and interval is at least 1, got '
                f'max_share={max_share}, interval={interval}.'
            )
        self.max_share = max_share
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Read what a run before this one has found; leave out what crashed it."""
        self.path = Path(runner.work_dir) / 'bad_videos.txt'
        known = self._read_record()
        crashed = {video: reason for video, reason in known.items() if reason.startswith(CRASHED)}
        if crashed:
            names = ', '.join(crashed)
            runner.logger.warning(f'Left out, for {CRASHED} in an earlier run: {names}')
        self._lists = _lists_within(runner.train_dataloader.dataset)
        for videos in self._lists:
            videos.leave_out(crashed)
        atexit.register(self._record_crashes)  # last in, first out: before the notes are cleared
        self._known = set(known)
        self._found: dict[str, str] = {}  # since the last look, by this rank
        self._seen = self._replaced = 0
        self._totals = [0, 0]  # of this epoch, over all ranks

    def before_train_epoch(self, runner: Runner) -> None:
        """Count anew."""
        self._totals = [0, 0]

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Count what the batch reports."""
        for sample in samples_of(data_batch):
            unreadable = sample.get('unreadable', [])
            self._seen += 1
            self._replaced += bool(unreadable)
            self._found.update(unreadable)
        if self.every_n_train_iters(runner, self.interval):
            self._compare_notes(runner)

    def after_train_epoch(self, runner: Runner) -> None:
        """Report the epoch's share."""
        self._compare_notes(runner)
        replaced, seen = self._totals
        if replaced:
            runner.logger.info(
                f'Epoch {runner.epoch + 1}: {replaced} of {seen} samples ({replaced / seen:.2%}) '
                f'were replaced, their videos cannot be read; {self.path} names them.'
            )

    def after_train(self, runner: Runner) -> None:
        """What comes later is not of this run."""
        atexit.unregister(self._record_crashes)

    def _compare_notes(self, runner: Runner) -> None:
        """Join what all ranks found.

        Raises:
            RuntimeError: too many videos cannot be read.
        """
        notes = all_gather_object((self._seen, self._replaced, self._found))
        self._seen, self._replaced, self._found = 0, 0, {}
        for seen, replaced, found in notes:
            self._totals[0] += replaced
            self._totals[1] += seen
            for filename, reason in found.items():
                if filename not in self._known:
                    self._known.add(filename)
                    self._record(runner, filename, reason)
        replaced, seen = self._totals
        if replaced > self.max_share * seen:
            raise RuntimeError(
                f'{replaced} of the {seen} videos drawn in this epoch ({replaced / seen:.1%}) '
                f'cannot be read, more than max_share={self.max_share:.1%}; {self.path} names '
                'them. Correct data_prefix, or train on the list that '
                'tools/data/check_videos.py writes, or raise max_share of BadVideosHook.'
            )

    def _read_record(self) -> dict[str, str]:
        """By file, the reason."""
        lines = self.path.read_text('utf-8').splitlines() if self.path.exists() else []
        return {video: reason for video, _, reason in (line.partition('\t') for line in lines)}

    def _record_crashes(self) -> None:
        recorded = self._read_record()
        for videos in self._lists:
            for filename, reason in videos.crashed().items():
                if not recorded.get(filename, '').startswith(CRASHED):
                    self._write(filename, reason)

    def _record(self, runner: Runner, filename: str, reason: str) -> None:
        runner.logger.warning(f'{filename} cannot be read and is replaced: {reason}')
        if is_main_process():
            self._write(filename, reason)

    def _write(self, filename: str, reason: str) -> None:
        with self.path.open('a', encoding='utf-8') as file:
            file.write(f'{filename}\t{reason}\n')


def _lists_within(dataset: object) -> list[VideoListDataset]:
    """The lists in mmengine's wrappers of datasets."""
    if isinstance(dataset, VideoListDataset):
        return [dataset]
    within = getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]
    return [videos for part in within if part is not None for videos in _lists_within(part)]
