import io

from rich.console import Console

from cvrl_mm.progress import progress


def shown(disable: bool, title: str = 'videos') -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with progress(title, console, disable) as update:
        update(3, 7)
    return console.file.getvalue()


def test_bar_shows_its_title_and_the_numbers():
    assert 'videos' in shown(disable=False)
    assert '3/7' in shown(disable=False)


def test_a_disabled_bar_shows_nothing():
    assert '3/7' not in shown(disable=True)


def test_a_title_is_shown_as_it_is():
    assert 'list [a] [/x].txt' in shown(False, 'list [a] [/x].txt')
