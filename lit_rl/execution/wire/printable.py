"""Text of a program, made safe for a log, a table or a terminal."""

from __future__ import annotations

import re

# Control characters, other line ends, marks that change the direction of writing, halves of surrogate pairs.
_UNFIT = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_UNFIT}]")
_IN_NAME = re.compile(f"[\t\n{_UNFIT}]")
MAX_NAME_LENGTH = 100


def make_printable(text: str) -> str:
    r"""Return a text whose only control characters are tab and newline; all others become ``\ufffd``.

    Example:
        >>> make_printable("one\r\ntwo\x1b[2J")
        'one\ntwo\ufffd[2J'
    """
    return _IN_TEXT.sub("\ufffd", text.replace("\r\n", "\n"))


def printable_name(name: str) -> str:
    """Return a name on one line, cut to ``MAX_NAME_LENGTH`` characters."""
    return _IN_NAME.sub("\ufffd", name[:MAX_NAME_LENGTH])
