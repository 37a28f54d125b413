"""What a program is compared with."""

from __future__ import annotations

from lit_rl.arguments import UsageError
from lit_rl.rewards.term import TermScore
from lit_rl.types import Judgement, Problem

NO_REFERENCE = TermScore(None, reason="the problem has no reference")


def reference_of(problem: Problem) -> str | None:
    """The problem's reference program, or the text its check compares with."""
    if problem.reference is not None:
        return problem.reference
    return problem.check.reference_text


def check_reference(term: str, problem: Problem) -> str:
    """The reference of a problem.

    Raises:
        ValueError: it has none.
    """
    reference = reference_of(problem)
    if reference is None:
        raise UsageError(f"{term} compares with a reference, and this problem has none")
    return reference


def has_reference(judgement: Judgement) -> bool:
    """Whether there is something to compare with: always in training, not for every problem of a validation task."""
    return reference_of(judgement.problem) is not None


def program_and_reference(judgement: Judgement, term: str) -> tuple[str, str]:
    """The program to compare, empty if there is none, and the reference."""
    source = "" if judgement.program is None else judgement.program.source
    return source, check_reference(term, judgement.problem)
