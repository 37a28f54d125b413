"""Errors of this library, and the hint "did you mean"."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches

_ENVIRONMENT_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MAX_NAMES = 24


class LitRLError(Exception):
    """An error of this library's own: one line that says what is wrong and what to do.

    The command line prints the line as it is; other exceptions appear with their class and a way to see the traceback.
    """


class UsageError(LitRLError, ValueError):
    """Input from the user that cannot be used: a file, a combination of settings, an object of the wrong kind."""


class UnknownArgumentError(LitRLError, TypeError):
    """An argument name that a constructor does not have, with the name that was probably meant."""


class ArgumentError(UsageError):
    """An argument that cannot be used: ``key: expected X, got Y; do Z``.

    Args:
        key: the argument's name, dotted as in a configuration where it belongs to a group or class.
        expected: a phrase that describes what the argument takes.
        got: what came, as text; empty if the key says so already.
        remedy: what to do; empty if ``expected`` says so already.
    """

    def __init__(self, key: str, expected: str, got: str = "", remedy: str = "") -> None:
        super().__init__(key, expected, got, remedy)  # all arguments, so that another process can rebuild the error
        self.key, self.expected, self.got, self.remedy = key, expected, got, remedy

    def __str__(self) -> str:
        """Return the message as one line."""
        line = f"{self.key}: expected {self.expected}"
        return line + (f", got {self.got}" if self.got else "") + (f"; {self.remedy}" if self.remedy else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean A?`` for the nearest known name or, without one, a list of names, for a message."""
    names = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), names, n=1)
    if near:
        return f"did you mean {names[near[0]]}?"
    return f"known: {', '.join(names.values())}" if 0 < len(names) <= _MAX_NAMES else ""


def short_repr(value: object, longest: int = 80) -> str:
    """Return the beginning of a value's ``repr`` on one line, for messages."""
    text = " ".join(f"{value!r:.300}".split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def seed_or_global(seed: int | None) -> int:
    """Return the given seed; without one, the seed of Lightning's ``seed_everything``, or 0 if there is none."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed


def expand_variables(text: str) -> str:
    """Expand the environment variables in a path."""
    expanded = os.path.expandvars(text)
    if unset := _ENVIRONMENT_VARIABLE.search(expanded):
        name = unset[1] or unset[2]
        raise FileNotFoundError(
            f"{text}: the environment variable {name} is not set: run `export {name}=FOLDER`, or give another path"
        )
    return expanded
