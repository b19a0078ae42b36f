"""Show the progress of a training in a terminal."""

import sys
from datetime import timedelta
from time import monotonic

from mmengine.dist import get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 30  # between two lines if the output is not a terminal


class ProgressHook(Hook):
    """Show loss, accuracy, speed, waiting time and remaining time.

    ``accuracy`` is the contrastive accuracy: the share of first clips whose nearest clip in the
    batch is the second clip of the same video. Without a terminal, a line is printed every 30
    seconds.
    """

    priority = 'LOWEST'  # after all hooks that log values

    def before_train(self, runner: Runner) -> None:
        """Show the bar on the main process."""
        self.line = monotonic()
        self.chance = 1 / (runner.train_dataloader.batch_size * get_world_size())
        console = Console(stderr=True)
        self.plain = not console.is_terminal
        columns = (
            TextColumn('Training'),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn('left  {task.fields[numbers]}'),
        )
        disable = self.plain or not is_main_process()
        self.bar = Progress(*columns, console=console, disable=disable)
        self.task = self.bar.add_task('', total=runner.max_iters, numbers='')
        self.bar.update(self.task, completed=runner.iter)
        self.bar.start()

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Update the numbers."""
        window = runner.log_processor.window_size
        scalars = runner.message_hub.log_scalars

        def mean(name: str) -> float:
            scalar = scalars.get(f'train/{name}')
            return float('nan') if scalar is None else float(scalar.mean(window))

        rate = mean('videos_per_second')
        digits = 1 if rate < 10 else 0
        numbers = (
            f'loss {mean("loss"):.2f}  accuracy {mean("accuracy"):.0%} (chance {self.chance:.0%})  '
            f'{rate:.{digits}f} videos/s  waiting {mean("waiting_for_data"):.0%}'
        )
        done = runner.iter + 1
        self.bar.update(self.task, completed=done, numbers=numbers)
        late = monotonic() - self.line > PLAIN_SECONDS or done == runner.max_iters
        if self.plain and late and is_main_process():
            self.line = monotonic()
            seconds = self.bar.tasks[0].time_remaining
            left = '' if not seconds else f'{timedelta(seconds=round(seconds))} left  '
            line = f'Training {done}/{runner.max_iters}  {left}{numbers}'
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the bar, also after an error."""
        if hasattr(self, 'bar'):
            self.bar.stop()
