"""Text for people: what is printable, and names and errors in one line."""

import re
from collections.abc import Mapping

# Control characters, line separators, changes of the direction of text, undecodable bytes
UNPRINTABLE = re.compile('[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')


def printable(text: object) -> str:
    """Escape control characters and undecodable bytes in text from outside."""
    return UNPRINTABLE.sub(lambda found: found[0].encode('unicode_escape').decode(), str(text))


def type_name(config: Mapping) -> str:
    """Return the class name in a config's ``type``, which may be the class or have a scope."""
    kind = config.get('type')
    return getattr(kind, '__name__', str(kind)).rpartition('.')[2]


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, without source locations and times of FFmpeg."""
    if strerror := getattr(error, 'strerror', None):  # of OSError and PyAV's errors
        return strerror
    text = re.sub(r'\[\d+:\d+:\d+\]\s*\S+?:\d+:\s*', '', str(error))
    text = ' '.join(text.split())
    return f'{type(error).__name__}: {text[:200]}' if text else type(error).__name__
