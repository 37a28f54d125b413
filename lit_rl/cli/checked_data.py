"""Checks of a task: its references pass, and wrong programs do not."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from lit_rl.execution.checks import AssertTests, Check, StdioTests
from lit_rl.execution.interface import Outcome
from lit_rl.execution.judging.asserts.prepared_tests import names_from_program
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout.records import reference_program
from lit_rl.types import Problem

T = TypeVar("T")

_HEADROOM = 5.0
"""A program that a policy writes may be slower than the reference by this factor."""
_MIN_LIMIT_SECONDS = 1.0
_NUM_SLOWEST = 5
_EMPTY_MAIN = "int main() { return 0; }\n"
# The exceptions that tests expect most often; one class may derive from all of them.
_RAISES = "raise type('Wrong', (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, RuntimeError), {})"
_STUBS = {
    "function": "def {name}(*args, **kwargs):\n    {body}\n",
    "class": "class {name}:\n    def __init__(self, *args, **kwargs):\n        pass\n\n"
    "    def __getattr__(self, name):\n        def method(*args, **kwargs):\n            {body}\n"
    "        return method\n",
}
_BODIES = {"a stub": "pass", "a stub that raises": _RAISES}


@dataclass
class CheckedProblem:
    """A problem, the outcomes of its reference under the check and the public check, and wrong programs that pass.

    An outcome is ``None`` if there is no reference or no such check, or if the check runs no program.
    """

    problem: Problem
    outcome: Outcome | None = None
    public: Outcome | None = None
    accepted_wrong_programs: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True if the reference ran and passes all checks that the problem has."""
        return self.outcome is not None and self.outcome.passed and (self.public is None or self.public.passed)

    @property
    def faults(self) -> list[str]:
        """The faults, each in words that are the same for all problems with that fault."""
        found = []
        for outcome, under in ((self.outcome, ""), (self.public, "under the public check, ")):
            if outcome is not None and not outcome.passed:
                how = " ".join(filter(None, [str(outcome.verdict), outcome.exception_type]))
                packages = " (--packages NAME permits a package here; set sandbox packages: [NAME] in a run)"
                hint = packages if outcome.exception_type == "ModuleNotFoundError" else ""
                found.append(f"{under}the reference ends with {how}{hint}")
        return found + [f"the tests accept {what}" for what in self.accepted_wrong_programs]


@dataclass(frozen=True)
class TaskCheckResult:
    """Result of checking a task: its problems by split."""

    splits: Mapping[str, Sequence[CheckedProblem]]

    @cached_property
    def checked_problems(self) -> list[CheckedProblem]:
        """All problems, each once."""
        return list({id(one): one for split in self.splits.values() for one in split}.values())

    @cached_property
    def problems_by_fault(self) -> dict[str, list[CheckedProblem]]:
        """Problems by fault, the largest group first."""
        found: dict[str, list[CheckedProblem]] = {}
        for one in self.checked_problems:
            for fault in one.faults:
                found.setdefault(fault, []).append(one)
        return dict(sorted(found.items(), key=lambda group: -len(group[1])))

    @property
    def is_fine(self) -> bool:
        """True if there are problems and none has a fault."""
        return bool(self.checked_problems) and not self.problems_by_fault

    def report_text(self, num_examples: int = 3) -> str:
        """Return the verdict, counts for each split, faults, the slowest references and a time limit."""
        ran = [one for one in self.checked_problems if one.outcome is not None]
        passed = f"{sum(one.passed for one in ran)} of {len(ran)} references pass"
        faulty = sum(bool(one.faults) for one in self.checked_problems)
        verdict = f"nothing wrong found: {passed}" if ran else "nothing wrong found, but nothing ran: no reference"
        if not self.is_fine:
            verdict = f"something is wrong: {faulty} of {len(self.checked_problems)} problems have a fault; {passed}"
        lines = [verdict, *map(self._split_count_line, self.splits)]
        for fault, problems in self.problems_by_fault.items():
            lines.append(f"{fault}: {len(problems)} problems")
            lines += [f"  {one.problem.task_id}: {_describe_problem_fault(one)}" for one in problems[:num_examples]]
        slowest = sorted(ran, key=lambda one: -_reference_cpu_seconds(one))[:_NUM_SLOWEST]
        lines += [f"slow: {one.problem.task_id}, {_reference_cpu_seconds(one):.3f} CPU seconds" for one in slowest]
        if times := [_reference_cpu_seconds(one) for one in ran if one.passed]:
            limit = max(_MIN_LIMIT_SECONDS, float(math.ceil(_HEADROOM * max(times))))
            lines.append(f"calibrated time limit: {limit:g} s per problem ({_HEADROOM:g} x the slowest)")
        return "\n".join(lines)

    def _split_count_line(self, name: str) -> str:
        split = self.splits[name]
        passed, without = sum(one.passed for one in split), sum(one.outcome is None for one in split)
        return f"  {name}: {len(split)} problems, {passed} references pass, {without} without a reference that runs"


def _reference_cpu_seconds(one: CheckedProblem) -> float:
    return one.outcome.cpu_seconds if one.outcome else 0.0


def _describe_problem_fault(one: CheckedProblem) -> str:
    failed = next((outcome for outcome in (one.outcome, one.public) if outcome and not outcome.passed), None)
    if failed is None:
        return f"passed by {' and '.join(one.accepted_wrong_programs)}"
    reason = failed.exception_message or (failed.failed_case.line() if failed.failed_case else failed.stderr)
    where = f"line {failed.line}" if failed.line else ""
    first, _, _ = reason.strip().removeprefix(": ").partition("\n")
    return " ".join(filter(None, [str(failed.verdict), where, first[:160]]))


# -- running --------------------------------------------------------------------------------------------------


def judge_references(sandbox: Sandbox, problems: Iterable[Problem]) -> list[CheckedProblem]:
    """Judge the reference of each problem that has one, under its check and its public check."""
    checked = [CheckedProblem(problem) for problem in problems]
    tried = [
        ((one, name), reference, check)
        for one in checked
        for name, check in (("outcome", one.problem.check), ("public", one.problem.public_check))
        if (reference := reference_program(one.problem)) is not None
        and one.problem.check.runs_program
        and check is not None
    ]
    for (one, name), outcome in _judge_named_programs(sandbox, tried):
        setattr(one, name, outcome)
    return checked


def record_accepted_wrong_programs(sandbox: Sandbox, checked: Sequence[CheckedProblem]) -> None:
    """Record the wrong programs that pass the tests of problems whose reference passes or is missing."""
    idle = [
        ((one, what), source, one.problem.check)
        for one in checked
        if one.problem.check.runs_program and (one.passed or one.outcome is None)
        for what, source in _do_nothing_programs(one.problem)
    ]
    for (one, what), outcome in _judge_named_programs(sandbox, idle):
        if outcome.passed:
            one.accepted_wrong_programs.append(what)


def _judge_named_programs(sandbox: Sandbox, tried: Iterable[tuple[T, str, Check]]) -> Iterator[tuple[T, Outcome]]:
    """Judge all programs by their checks together; yield each outcome with the name of its program."""
    named = list(tried)
    outcomes = sandbox.judge_many([(source, check) for _, source, check in named])
    return zip((name for name, _, _ in named), outcomes, strict=True)


def _do_nothing_programs(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield programs that do nothing, each with its description."""
    if problem.check.language != "python":
        if isinstance(problem.check, StdioTests):
            yield "an empty program", _EMPTY_MAIN
        return
    if problem.continues_program:
        for what, body in _BODIES.items():
            yield what, f"{problem.program_prefix}    {body}\n"
        return
    yield "an empty program", f"{problem.program_prefix}\npass\n"
    name = _name_used_by_tests(problem)
    if name is not None:
        is_class = "." in (problem.check.defines or "") or f"class {name}" in (problem.reference or "")
        for what, body in _BODIES.items():
            yield what, _STUBS["class" if is_class else "function"].format(name=name, body=body)


def _name_used_by_tests(problem: Problem) -> str | None:
    """Return the function or class that the tests use; ``None`` if they run a whole program or no name is found."""
    check = problem.check
    if check.defines:
        return check.defines.partition(".")[0]
    if not isinstance(check, AssertTests):
        return None
    try:
        tree = ast.parse(check.test)
        names = names_from_program(check.test, tree, None)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)} & names
    return called.pop() if len(called) == 1 else None
