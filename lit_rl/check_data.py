"""``lit-rl check-data``: run every reference solution, before a run spends hours on rows that cannot pass."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml
from jsonargparse import ArgumentParser

from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution.checks import Compare, StdioTests
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.types import Problem

# A program that a policy writes may be slower than the reference by this factor.
HEADROOM = 5.0
SMALLEST_LIMIT_SECONDS = 1.0


@dataclass(frozen=True)
class Checked:
    """A problem and the outcome of its reference.

    Args:
        problem: with its reference.
        outcome: outcome of the reference.
        passes_by: for printed output that is wrong, the strictest other rule by which the reference passes.
        public: outcome of the reference under the public check, if the problem has one.
    """

    problem: Problem
    outcome: Outcome
    passes_by: Compare | None = None
    public: Outcome | None = None

    @property
    def passed(self) -> bool:
        """Whether the reference passes all checks that the problem has."""
        return self.outcome.passed and (self.public is None or self.public.passed)


def check_data(arguments: Sequence[str]) -> None:
    """Run every reference of a task in the sandbox; report the rows that fail, the slowest, a time limit.

    References are run under the public checks too. Exits with status 1 if a reference does not pass.
    """
    parser = ArgumentParser(prog="lit-rl check-data", description=check_data.__doc__, exit_on_error=False)
    parser.add_argument("-c", "--config", type=str, help="configuration of a run; its data is checked")
    parser.add_subclass_arguments(TaskDataModule, "data", required=False, help="the task to check")
    parser.add_argument("--splits", type=list[Split], default=["train", "validation", "test"])
    parser.add_argument("--num_workers", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--packages", type=list[str], default=[], help="packages that programs may import")
    parser.add_argument("--output", type=str, help="write one JSON line per reference that failed")
    parsed = parser.parse_args(with_data_of_config("check-data", arguments))
    task = parser.instantiate_classes(parsed).data
    if task is None:
        parser.error("give --config FILE or --data TASK: nothing says which task to check")
    with Sandbox(num_workers=parsed.num_workers, packages=tuple(parsed.packages)) as sandbox:
        problems = problems_of(task, parsed.splits)
        checked = suggest_rules(sandbox, run_references(sandbox, problems))
    print(report(checked))
    print(report_of_public_checks(problems, checked))
    failed = [one for one in checked if not one.passed]
    if parsed.output:
        Path(parsed.output).write_text("".join(json.dumps(as_row(one)) + "\n" for one in failed))
    if failed:
        raise SystemExit(1)


def problems_of(task: TaskDataModule, splits: Iterable[Split]) -> list[Problem]:
    """The problems of several splits and of the validation tasks, each once."""
    found: dict[tuple[str, str], list[Problem]] = {}
    for one in (task, *(task.validation_tasks or ())):
        for split in splits:
            for problem in one.problems(split):
                # Splits may share problems, or only names: rows of two files are often counted from 0 in both.
                of_name = found.setdefault((one.name, problem.task_id), [])
                if problem not in of_name:
                    of_name.append(problem)
    return [problem for of_name in found.values() for problem in of_name]


def run_references(sandbox: Sandbox, problems: Iterable[Problem]) -> list[Checked]:
    """Judge the reference of each problem that has one, under its check and its public check."""
    with_reference = [(p, p.reference) for p in problems if p.reference is not None]
    public = [(reference, p.public_check) for p, reference in with_reference if p.public_check is not None]
    outcomes = sandbox.judge_many([*((reference, p.check) for p, reference in with_reference), *public])
    under_public = iter(outcomes[len(with_reference) :])
    return [
        Checked(p, outcome, public=None if p.public_check is None else next(under_public))
        for (p, _), outcome in zip(with_reference, outcomes, strict=False)
    ]


def suggest_rules(sandbox: Sandbox, checked: Sequence[Checked]) -> list[Checked]:
    """Have references that print something else judged by the looser rules for comparing output."""
    found = list(checked)
    rules: tuple[Compare, ...] = get_args(Compare)  # from the strictest to the loosest
    for looseness, rule in enumerate(rules):
        tried: list[tuple[int, str, StdioTests]] = []
        for index, one in enumerate(found):
            check, reference = one.problem.check, one.problem.reference
            if not isinstance(check, StdioTests) or reference is None or one.passes_by:
                continue
            if one.outcome.verdict is Verdict.WRONG_ANSWER and check.compare in rules[:looseness]:
                tried.append((index, reference, replace(check, compare=rule)))
        outcomes = sandbox.judge_many([(reference, check) for _, reference, check in tried])
        for (index, *_), outcome in zip(tried, outcomes, strict=True):
            if outcome.passed:
                found[index] = replace(found[index], passes_by=rule)
    return found


def report(checked: Sequence[Checked]) -> str:
    """The report, as text."""
    if not checked:
        return "no problem of this task has a reference solution: nothing was checked"
    lines = [f"{sum(one.outcome.passed for one in checked)} of {len(checked)} references pass"]
    for one in checked:
        if not one.outcome.passed:
            lines.append(_failure_line(one))
    for rule, count in sorted(Counter(one.passes_by for one in checked if one.passes_by).items()):
        lines.append(f"{count} of these pass with compare: {rule}, set for the rows or for the task")
    slowest = sorted(checked, key=lambda one: -one.outcome.cpu_seconds)[:5]
    lines.append("slowest (CPU seconds):")
    lines += [f"  {one.problem.task_id}: {one.outcome.cpu_seconds:.3f}" for one in slowest]
    if any(one.outcome.passed for one in checked):
        lines.append(f"calibrated time limit: {calibrated_limit(checked):g} s per problem ({HEADROOM:g} x the slowest)")
    return "\n".join(lines)


def report_of_public_checks(problems: Sequence[Problem], checked: Sequence[Checked]) -> str:
    """How many problems have a public check, and which references do not pass theirs, as text."""
    num_public = sum(problem.public_check is not None for problem in problems)
    if not num_public:
        return f"public checks: 0 of {len(problems)} problems have one"
    outcomes = [(one.problem, one.public) for one in checked if one.public is not None]
    failed = [f"  {p.task_id}: {_shown(outcome)}" for p, outcome in outcomes if not outcome.passed]
    passed = f"{len(outcomes) - len(failed)} of {len(outcomes)} references pass theirs"
    return "\n".join([f"public checks: {num_public} of {len(problems)} problems have one, {passed}", *failed])


def _failure_line(one: Checked) -> str:
    """A reference that did not pass, on one line."""
    rule = f" (passes with compare: {one.passes_by})" if one.passes_by else ""
    return f"  {one.problem.task_id}: {_shown(one.outcome)}{rule}"


def _shown(outcome: Outcome) -> str:
    """Verdict, exception, line and the last line of stderr."""
    parts = [
        str(outcome.verdict),
        outcome.exception_type,
        f"line {outcome.line}" if outcome.line else None,
        *(line[:160] for line in outcome.stderr.strip().splitlines()[-1:]),
    ]
    return " ".join(part for part in parts if part)


def calibrated_limit(checked: Sequence[Checked]) -> float:
    """CPU seconds that leave every passing reference its headroom on this machine, rounded up."""
    slowest = max((one.outcome.cpu_seconds for one in checked if one.outcome.passed), default=0.0)
    return max(SMALLEST_LIMIT_SECONDS, float(math.ceil(HEADROOM * slowest)))


def as_row(one: Checked) -> dict[str, Any]:
    """A failed reference as plain data."""
    outcome = one.outcome
    return {
        "task_id": one.problem.task_id,
        "verdict": str(outcome.verdict),
        "exception_type": outcome.exception_type,
        "line": outcome.line,
        "passes_by": one.passes_by,
        "public_verdict": None if one.public is None else str(one.public.verdict),
        "stderr": outcome.stderr,
        "cpu_seconds": outcome.cpu_seconds,
    }


def with_data_of_config(verb: str, arguments: Sequence[str]) -> list[str]:
    """Replace ``--config FILE`` by the data section of that file; the rest of it is not needed."""
    rest = list(arguments)
    for flag in ("--config", "-c"):
        if flag in rest and rest.index(flag) + 1 < len(rest):
            at = rest.index(flag)
            file = rest[at + 1]
            section = (yaml.safe_load(Path(file).read_text()) or {}).get("data")
            if section is None:
                raise ValueError(f"{file} has no data section: {verb} reads the task from there")
            rest[at : at + 2] = ["--data", json.dumps(section)]
    return rest
