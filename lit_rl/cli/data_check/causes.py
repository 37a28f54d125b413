"""Faults of a problem, in words that are the same for all problems with that fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lit_rl.cli.data_check.checked import Checked
from lit_rl.cli.data_check.names import names_apart
from lit_rl.execution.checks import AssertTests
from lit_rl.execution.interface import CHECKER_FAILED, Outcome, Verdict
from lit_rl.execution.judging.asserts.evidence import truth_of
from lit_rl.types import Problem

_MISSING_MODULE = re.compile(r"No module named '(\w+)")
_UNKNOWN_NAME = "the tests use "
_REFLEXIVE = (ast.Eq, ast.Is, ast.LtE, ast.GtE)


@dataclass(frozen=True)
class Cause:
    """Reason why problems cannot be learned from.

    Args:
        kind: what is wrong, the same for all problems of a group.
        advice: what to do about it.
        detail: what tells problems of the group apart, such as two names; may be empty.
        one: the sentence where all problems of the group have the same detail; by default ``kind``.
    """

    kind: str
    advice: str
    detail: str = ""
    one: str = ""


_BY_VERDICT: Mapping[Verdict, Cause] = {
    Verdict.WRONG_ANSWER: Cause(
        "the tests expect other answers than the reference gives",
        "read one of these rows: its tests belong to another problem, or its reference is wrong",
    ),
    Verdict.TIMED_OUT: Cause("the reference takes longer than the time limit", "raise the task's timeout_seconds"),
    Verdict.OUT_OF_MEMORY: Cause(
        "the reference needs more memory than programs get",
        "raise memory_bytes of the run's sandbox, or leave these rows out",
    ),
    Verdict.SYNTAX_ERROR: Cause("the reference does not compile", "correct these references, or their language"),
    Verdict.NO_PROGRAM: Cause("the reference is blank", "fill in these references, or leave them out (null)"),
    Verdict.INFRASTRUCTURE_FAILURE: Cause(
        "the tests cannot be run",
        "correct the tests as the messages say; what is not about tests is in lit-rl docs sandbox",
    ),
}
"""Causes that follow from the verdict alone."""


def causes_of(checked: Checked) -> list[Cause]:
    """Return the faults of a problem; empty if its reference passes."""
    found = []
    apart = names_apart(checked.problem)
    if apart:
        called, who, other = apart
        found.append(
            Cause(
                f"the tests call another function than {who}",
                "bring prompts, references and tests of the same problem together: rows were joined in the wrong "
                "order, or a function has two names",
                f"`{called}` for `{other}`",
                f"the tests call `{called}`, {who} `{other}`",
            )
        )
    if checked.outcome is not None and not checked.outcome.passed and not apart:
        found.append(_cause(checked.outcome, checked))
    if checked.public is not None and not checked.public.passed and not apart:
        under_public = _cause(checked.public, checked)
        found.append(Cause(f"under the public check, {under_public.kind}", under_public.advice, under_public.detail))
    idle = _idle_asserts(checked.problem)
    if idle:
        found.append(
            Cause(
                "an assert of the tests cannot fail",
                "correct these asserts: a tuple with a message is always true, and f(x) == f(x) compares nothing",
                idle[0],
            )
        )
    if checked.accepts:
        stubs = [what for what in checked.accepts if "stub" in what]
        what = " and ".join(stubs) or checked.accepts[0]
        what = "the reference of another problem" if "the reference" in what else what
        found.append(
            Cause(
                "the tests accept a wrong program",
                "add cases that only a right answer passes, or leave these rows out: a policy finds such programs",
                what,
                f"the tests accept a wrong program, {what}",
            )
        )
    if checked.cut_by is not None:
        found.append(
            Cause(
                f"the stop string {checked.cut_by!r} occurs inside right answers and cuts them",
                f"take {checked.cut_by!r} out of the problems' stop_strings: an answer ends before it",
            )
        )
    return found


def _cause(outcome: Outcome, checked: Checked) -> Cause:
    """Return the reason a reference did not pass a check."""
    missing = _MISSING_MODULE.search(outcome.exception_message)
    if missing:
        return Cause(
            "the reference imports a package that programs may not import",
            "give --packages NAME here and packages: [NAME] to the run's sandbox, or leave these rows out",
            missing[1],
            f"the reference imports {missing[1]}, which programs may not import",
        )
    match outcome.verdict:
        case Verdict.WRONG_ANSWER if outcome.exception_type == CHECKER_FAILED:
            return Cause(
                "the checker fails on the output of the reference",
                "correct these checkers, or give them more timeout_seconds: programs fail where their checker does",
                outcome.exception_message,
            )
        case Verdict.INFRASTRUCTURE_FAILURE if outcome.stderr.startswith("the checker "):
            return Cause(
                "the checker cannot be run, or does not accept an expected output",
                "correct these checkers or outputs as the messages say, or leave these rows out",
            )
        case Verdict.WRONG_ANSWER if checked.passes_by and outcome is checked.outcome:
            return Cause(
                f"the output is right only with compare: {checked.passes_by}",
                f"set compare: {checked.passes_by} for these rows or for the task",
            )
        case Verdict.EXCEPTION if outcome.stderr.startswith("NameError: " + _UNKNOWN_NAME):
            return Cause(
                "the tests use a name that neither they nor the reference define",
                "complete these tests or leave the rows out",
            )
        case Verdict.EXCEPTION:
            return Cause(
                f"the reference ends with {outcome.exception_type or 'an exception'}",
                "read one of these rows: its reference is wrong, or its tests belong to another problem",
            )
        case verdict:
            return _BY_VERDICT.get(verdict, Cause(f"the reference ends as {verdict}", "read one of these rows"))


def _idle_asserts(problem: Problem) -> list[str]:
    """The asserts of a problem that call a function and cannot fail, such as a value that is compared with itself."""
    if not isinstance(problem.check, AssertTests):
        return []
    try:
        nodes = list(ast.walk(ast.parse(problem.check.test)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Assert) and _is_idle(node.test)]


def _is_idle(test: ast.expr) -> bool:
    if not any(isinstance(part, ast.Call) for part in ast.walk(test)):
        return False  # HumanEval has ``assert True, "This prints if this assert fails"``
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _REFLEXIVE):
        return ast.dump(test.left) == ast.dump(test.comparators[0])
    return bool(truth_of(test))
