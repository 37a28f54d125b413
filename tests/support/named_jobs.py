"""Many programs judged at once, by name: a table of cases is one test, whose failure lists the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lit_rl.execution import Check, Outcome, ProgramRunner


def judge_named(sandbox: ProgramRunner, jobs: Mapping[Any, tuple[str, Check]]) -> dict[Any, Outcome]:
    """Outcome of each job, which is a program and its check, under its name."""
    return dict(zip(jobs, sandbox.judge_many(list(jobs.values())), strict=True))


def not_among(outcomes: Mapping[Any, Outcome], *verdicts: str) -> dict[Any, Outcome]:
    """Outcomes with another verdict than these, for an assert that there are none."""
    return {name: outcome for name, outcome in outcomes.items() if outcome.verdict not in verdicts}


def among(outcomes: Mapping[Any, Outcome], *verdicts: str) -> dict[Any, Outcome]:
    """Outcomes with one of these verdicts, for an assert that there are none."""
    return {name: outcome for name, outcome in outcomes.items() if outcome.verdict in verdicts}
