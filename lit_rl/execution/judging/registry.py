"""From a check to its judge. Runs in the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from lit_rl.execution.checks import Check
from lit_rl.execution.judging.jobs import ZygoteClient
from lit_rl.execution.outcome import Outcome

Judge = Callable[[ZygoteClient, str, Check], Outcome]


def judge_of(kind: type[Check]) -> Judge:
    """The judge that a kind of check names; its module is loaded at the first check of that kind.

    Raises:
        TypeError: if the kind names none, or one that does not exist.
    """
    if not kind.judged_by:
        raise TypeError(f"{kind.__name__} is not judged by running a program")
    module, _, name = kind.judged_by.partition(":")
    try:
        found: Judge = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TypeError(f"{kind.__name__}.judged_by is {kind.judged_by!r}, which cannot be loaded: {error}") from None
    return found
