"""Running the references of problems, and conclusions from their outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, get_args

from lit_rl.execution.checks import Check, Compare, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout.records import reference_program
from lit_rl.types import Problem

T = TypeVar("T")

# A program that a policy writes may be slower than the reference by this factor.
HEADROOM = 5.0
SMALLEST_LIMIT_SECONDS = 1.0


@dataclass
class Checked:
    """A problem and what was found out about it.

    Args:
        problem: any.
        outcome: outcome of the reference; ``None`` if there is none, or nothing to run it with.
        passes_by: for printed output that is wrong, the strictest other rule by which the reference passes.
        public: outcome of the reference under the public check, if the problem has one.
        cut_by: the stop string that ends a right answer (reference or demonstration) before it is right.
        accepts: wrong programs that pass the tests.
    """

    problem: Problem
    outcome: Outcome | None = None
    passes_by: Compare | None = None
    public: Outcome | None = None
    cut_by: str | None = None
    accepts: list[str] = field(default_factory=list)

    @property
    def ran(self) -> bool:
        """True if the problem has a reference and it ran."""
        return self.outcome is not None

    @property
    def passed(self) -> bool:
        """True if the reference ran and passes all checks that the problem has."""
        passed = self.outcome is not None and self.outcome.passed
        return passed and (self.public is None or self.public.passed)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the reference."""
        return self.outcome.cpu_seconds if self.outcome else 0.0


def judged(sandbox: Sandbox, tried: Iterable[tuple[T, str, Check]]) -> Iterator[tuple[T, Outcome]]:
    """Judge programs by their checks, all at once; each outcome comes with what was named before the program."""
    named = list(tried)
    outcomes = sandbox.judge_many([(source, check) for _, source, check in named])
    return zip((name for name, _, _ in named), outcomes, strict=True)


def run_references(sandbox: Sandbox, problems: Iterable[Problem]) -> list[Checked]:
    """Judge the reference of each problem that has one, under its check and its public check."""
    checked = [Checked(problem) for problem in problems]
    tried = [
        ((one, name), reference, check)
        for one in checked
        for name, check in (("outcome", one.problem.check), ("public", one.problem.public_check))
        if (reference := reference_program(one.problem)) is not None
        and one.problem.check.runs_program
        and check is not None
    ]
    for (one, name), outcome in judged(sandbox, tried):
        setattr(one, name, outcome)
    return checked


def suggest_rules(sandbox: Sandbox, checked: Sequence[Checked]) -> None:
    """Have references that print something else judged by the looser rules for comparing output."""
    rules: tuple[Compare, ...] = get_args(Compare)  # from the strictest to the loosest
    for looseness, rule in enumerate(rules):
        tried: list[tuple[Checked, str, Check]] = []
        for one in checked:
            check, reference = one.problem.check, reference_program(one.problem)
            if not isinstance(check, StdioTests) or check.checker is not None or reference is None or one.passes_by:
                continue
            if one.outcome and one.outcome.verdict is Verdict.WRONG_ANSWER and check.compare in rules[:looseness]:
                tried.append((one, reference, replace(check, compare=rule)))
        for one, outcome in judged(sandbox, tried):
            if outcome.passed:
                one.passes_by = rule


def calibrated_limit(checked: Sequence[Checked]) -> float:
    """CPU seconds that leave every passing reference its headroom on this machine, rounded up."""
    slowest = max((one.cpu_seconds for one in checked if one.outcome and one.outcome.passed), default=0.0)
    return max(SMALLEST_LIMIT_SECONDS, float(math.ceil(HEADROOM * slowest)))
