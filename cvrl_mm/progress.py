"""Progress bars on terminals and in notebooks."""

import html
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .processes import rank_and_size
from .text import printable


@contextmanager
def progress(
    title: str, console: Console | None = None, disable: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar with a title, the number done, the total and the time left.

    Args:
        title: Description of the bar.
        console: Console for the bar. Default: standard output.
        disable: Whether to show nothing, for all but one of several ranks.

    Yields:
        A function to call with the number of finished items and the total.
    """
    if not disable and (show := notebook_line()):
        yield lambda done, total: show(done / max(1, total), f'{title} {done}/{total}')
        return
    columns = [TextColumn('{task.description}', markup=False), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=disable) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def shared_work(title: str) -> Iterator[dict[str, Any]]:
    """Take the share of the videos that the environment gives to this process; show its progress.

    Args:
        title: Description of the bar.

    Yields:
        Arguments of a function that works on a share: ``rank``, ``size`` and ``on_progress``.

    Raises:
        ValueError: See :func:`.processes.rank_and_size`.
    """
    rank, size = rank_and_size()
    title = title if size == 1 else f'{title}, part {rank} of {size}'
    with progress(title, Console(stderr=True)) as on_progress:
        yield dict(rank=rank, size=size, on_progress=on_progress)


def notebook_line() -> Callable[[float, str], None] | None:
    """Make a line of a notebook that shows a bar, from 0 to 1, and a text in place of earlier ones.

    Returns:
        A function that shows them; None outside of Jupyter.
    """
    if not Console().is_jupyter:
        return None
    from IPython.display import display  # rich needs ipywidgets for its own bar

    line = display({'text/plain': ''}, raw=True, display_id=True)

    def show(share: float, text: str) -> None:
        text = printable(text)
        bar = f'<progress value="{share:.3f}"></progress> {html.escape(text)}'
        line.update({'text/plain': text, 'text/html': bar}, raw=True)

    return show
