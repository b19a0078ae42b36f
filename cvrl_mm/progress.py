"""The progress bar of all tools."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(console: Console | None = None, disable: bool = False) -> Progress:
    """Make a progress bar with a description, the number done, the total and the time left.

    Args:
        console: Console for the bar. Default: standard output.
        disable: Whether to show nothing, for all but one of several ranks.
    """
    columns = [TextColumn('{task.description}', markup=False), BarColumn(), MofNCompleteColumn()]
    return Progress(*columns, TimeRemainingColumn(), console=console, disable=disable)


@contextmanager
def progress(
    title: str, console: Console | None = None, disable: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show one progress bar.

    Args:
        title: Description of the bar.
        console: See :func:`progress_bar`.
        disable: See :func:`progress_bar`.

    Yields:
        A function to call with the number of finished items and the total.
    """
    with progress_bar(console, disable) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
