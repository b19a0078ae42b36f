"""The result of a check and its line in the report."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        status: 'ok', 'note' for a limitation, or 'problem' for something that does not work.
        name: What was checked.
        seen: What was found.
        advice: What to do; empty if nothing needs to be done.
    """

    status: str
    name: str
    seen: str
    advice: str = ''

    def __str__(self) -> str:
        """Return the line of the report."""
        arrow = f' -> {self.advice}' if self.advice else ''
        return f'{self.status:<8}{self.name}: {self.seen}{arrow}'
