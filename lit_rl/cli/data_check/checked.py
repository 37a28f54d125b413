"""Running the references of problems, and conclusions from their outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from lit_rl.execution.checks import Compare, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.types import Problem

# A program that a policy writes may be slower than the reference by this factor.
HEADROOM = 5.0
SMALLEST_LIMIT_SECONDS = 1.0


@dataclass(frozen=True)
class Checked:
    """A problem and the outcome of its reference.

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
    accepts: tuple[str, ...] = ()

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


def run_references(sandbox: Sandbox, problems: Iterable[Problem]) -> list[Checked]:
    """Judge the reference of each problem that has one, under its check and its public check."""
    checked = [Checked(problem) for problem in problems]
    sources = [one.problem.reference if one.problem.check.runs_program else None for one in checked]
    hidden = [(s, one.problem.check) for s, one in zip(sources, checked, strict=True) if s is not None]
    public = [
        (s, one.problem.public_check)
        for s, one in zip(sources, checked, strict=True)
        if s is not None and one.problem.public_check is not None
    ]
    outcomes = sandbox.judge_many([*hidden, *public])
    under_hidden, under_public = iter(outcomes[: len(hidden)]), iter(outcomes[len(hidden) :])
    return [
        one
        if source is None
        else replace(
            one,
            outcome=next(under_hidden),
            public=None if one.problem.public_check is None else next(under_public),
        )
        for source, one in zip(sources, checked, strict=True)
    ]


def suggest_rules(sandbox: Sandbox, checked: Sequence[Checked]) -> list[Checked]:
    """Have references that print something else judged by the looser rules for comparing output."""
    found = list(checked)
    rules: tuple[Compare, ...] = get_args(Compare)  # from the strictest to the loosest
    for looseness, rule in enumerate(rules):
        tried: list[tuple[int, str, StdioTests]] = []
        for index, one in enumerate(found):
            check, reference = one.problem.check, one.problem.reference
            if not isinstance(check, StdioTests) or reference is None or one.outcome is None or one.passes_by:
                continue
            if check.checker is not None:
                continue
            if one.outcome.verdict is Verdict.WRONG_ANSWER and check.compare in rules[:looseness]:
                tried.append((index, reference, replace(check, compare=rule)))
        outcomes = sandbox.judge_many([(reference, check) for _, reference, check in tried])
        for (index, *_), outcome in zip(tried, outcomes, strict=True):
            if outcome.passed:
                found[index] = replace(found[index], passes_by=rule)
    return found


def calibrated_limit(checked: Sequence[Checked]) -> float:
    """CPU seconds that leave every passing reference its headroom on this machine, rounded up."""
    slowest = max((one.cpu_seconds for one in checked if one.outcome and one.outcome.passed), default=0.0)
    return max(SMALLEST_LIMIT_SECONDS, float(math.ceil(HEADROOM * slowest)))
