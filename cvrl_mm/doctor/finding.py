"""One line of the doctor's report."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was seen, and what to do about it.

    Attributes:
        status: 'ok'; 'note' for what limits or surprises but works; 'problem' for what fails.
        name: What was looked at.
        seen: What was found there.
        advice: What to do; empty where there is nothing to do.
    """

    status: str
    name: str
    seen: str
    advice: str = ''

    def __str__(self) -> str:
        """One line, for a terminal."""
        arrow = f' -> {self.advice}' if self.advice else ''
        return f'{self.status:<8}{self.name}: {self.seen}{arrow}'
