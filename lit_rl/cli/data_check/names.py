"""The function that tests call, and the one that the prompt asks for."""

from __future__ import annotations

import ast
import re

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.judging.asserts.prepared_tests import program_names
from lit_rl.types import Problem

_DEFINITION = re.compile(r"^\s*(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)


def names_apart(problem: Problem) -> tuple[str, str, str] | None:
    """Return the names that the tests and the problem use for the function, if they differ.

    Returns:
        the name in the tests, ``the prompt asks for`` or ``the reference defines``, and the name there; ``None`` where
        the names agree or one of them is not known.
    """
    called = called_name(problem)
    if called is None:
        return None
    prompt = text_of(problem) + "\n" + problem.starter_code
    asked = _DEFINITION.findall(prompt)
    if asked and not re.search(rf"\b{re.escape(called)}\b", prompt):
        return called, "the prompt asks for", asked[-1]
    defined = _DEFINITION.findall(problem.reference or "")
    if defined and not re.search(rf"\b{re.escape(called)}\b", f"{problem.program_prefix}\n{problem.reference}"):
        return called, "the reference defines", defined[-1]
    return None


def called_name(problem: Problem) -> str | None:
    """The function or class that the tests use; ``None`` if they run a whole program, or it cannot be told."""
    check = problem.check
    if check.defines:
        return check.defines.partition(".")[0]
    return _called_by_asserts(check.test) if isinstance(check, AssertTests) else None


def text_of(problem: Problem) -> str:
    """The prompt as text; of a chat the last message, which asks."""
    return (
        problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"] if problem.prompt else ""
    )


def _called_by_asserts(test: str) -> str | None:
    """The one name of the program's that bare asserts call."""
    try:
        tree = ast.parse(test)
        names = program_names(test, tree, None)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)} & names
    return called.pop() if len(called) == 1 else None
