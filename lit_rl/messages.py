"""Errors as the command line shows them: one line with what is wrong, what came, what to do."""

from __future__ import annotations

import sys
from typing import NoReturn

_SAYS_NOTHING = (
    "usage:",
    "Given value",
    "Does not validate against any of the",
    "Subtypes:",
    "Errors:",
    "Subclass types expect one of:",
    "Not a valid subclass of",
    "a class path (str)",
    "a dict with",
    "Expected a <class 'NoneType'>",
)
"""How the lines begin in which the parser tells of types it tried besides."""


def fail(message: str, status: int) -> NoReturn:
    """Print one clear error and leave."""
    print(f"lit-rl: error: {shorten(message)}", file=sys.stderr)
    raise SystemExit(status)


def shorten(message: str) -> str:
    """The lines of a parser's message that say something: keys and causes, not each type that was tried."""
    lines = [line.strip().removeprefix("- ") for line in message.strip().splitlines()]
    kept = [line for line in lines if line and not line.startswith(_SAYS_NOTHING)]
    return "\n  ".join(line[:400] for line in kept[:12])
