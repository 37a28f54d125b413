"""Result of checking a task, as a verdict, groups of faults, and plain rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lit_rl.cli.data_check.causes import Cause, causes_of
from lit_rl.cli.data_check.checked import HEADROOM, Checked, calibrated_limit
from lit_rl.data.rows import REMEDY, RowError
from lit_rl.execution.interface import Outcome
from lit_rl.execution.languages import LANGUAGES, how_to_install, toolchain, version

_MOST_DETAILS = 3
_SLOWEST = 5


@dataclass(frozen=True)
class Group:
    """Problems with one fault.

    Args:
        causes: why, one per problem, all of one kind.
        problems: what was checked, in the order of the splits.
        splits: the splits they are in.
    """

    causes: Sequence[Cause]
    problems: Sequence[Checked]
    splits: Sequence[str]

    @property
    def title(self) -> str:
        """Fault, number of problems that have it, and their splits."""
        details = Counter(cause.detail for cause in self.causes if cause.detail)
        first = self.causes[0]
        what = first.kind
        if len(details) == 1:
            what = first.one or f"{first.kind} ({first.detail})"
        elif details:
            named = ", ".join(detail for detail, _ in details.most_common(_MOST_DETAILS))
            more = f" and {len(details) - _MOST_DETAILS} more" if len(details) > _MOST_DETAILS else ""
            what = f"{first.kind} ({named}{more})"
        return f"{what}: {counted(len(self.problems), 'problem')} ({', '.join(self.splits)})"


@dataclass(frozen=True)
class Findings:
    """Result of checking a task.

    Args:
        splits: name of each split and the problems in it, checked; a problem of two splits is in both.
        unread: errors of the rows of each split that make no problem.
    """

    splits: Mapping[str, Sequence[Checked]]
    unread: Mapping[str, Sequence[RowError]] = field(default_factory=dict)

    @cached_property
    def checked(self) -> list[Checked]:
        """All problems, each once."""
        return list({id(one): one for split in self.splits.values() for one in split}.values())

    @cached_property
    def groups(self) -> list[Group]:
        """Problems with the same fault, the largest group first."""
        found: dict[str, list[tuple[Cause, Checked]]] = {}
        for one in self.checked:
            for cause in causes_of(one):
                found.setdefault(cause.kind, []).append((cause, one))
        groups = [
            Group([c for c, _ in group], [one for _, one in group], self._splits_of([one for _, one in group]))
            for group in found.values()
        ]
        return sorted(groups, key=lambda group: -len(group.problems))

    @property
    def faulty(self) -> list[Checked]:
        """Problems with a fault, each once."""
        ids = {id(one) for group in self.groups for one in group.problems}
        return [one for one in self.checked if id(one) in ids]

    @property
    def fine(self) -> bool:
        """True if there are problems and none has a fault, and every row makes one."""
        return bool(self.checked) and not self.groups and not any(self.unread.values())

    def report(self, num_examples: int = 3) -> str:
        """The verdict, counts for each split, faults by cause, times, and what to do.

        Args:
            num_examples: problems that are named of each group, at most.
        """
        lines = [self._verdict(), *self._counts(), *self._languages()]
        lines += self._unread_rows(num_examples)
        for group in self.groups:
            lines += [group.title, *_examples(group.problems, num_examples)]
        return "\n".join([*lines, *self._times(), self._public_checks(), f"what to do: {self.advice}"])

    @property
    def advice(self) -> str:
        """First thing to do, in one line."""
        if any(self.unread.values()):
            errors = [error for of_split in self.unread.values() for error in of_split]
            if not self.checked and len(errors) > 1 and len({error.kind for error in errors}) == 1:
                return "every row fails in the same way: give the file of this task, or rename its fields"
            return "correct or remove the rows that make no problem, then run check-data again"
        if not self.checked:
            return "see that load_problems returns problems for train or validation, and that its paths are right"
        if self.groups:
            again = ", then run check-data again" if len(self.groups) > 1 else ""
            return self.groups[0].causes[0].advice + again
        if self._runs_programs and not any(one.ran for one in self.checked):
            return "nothing; fill in Problem.reference where there are solutions, to have the tests checked"
        return "nothing"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Problems with a fault as plain data, one row each."""
        for one in self.faulty:
            outcome = one.outcome
            yield {
                "task_id": one.problem.task_id,
                "splits": self._splits_of([one]),
                "causes": [cause.one or cause.kind for cause in causes_of(one)],
                "verdict": outcome and str(outcome.verdict),
                "exception_type": outcome and outcome.exception_type,
                "line": outcome and outcome.line,
                "passes_by": one.passes_by,
                "cut_by": one.cut_by,
                "accepts": one.accepts,
                "public_verdict": one.public and str(one.public.verdict),
                "stderr": outcome and outcome.stderr,
                "cpu_seconds": one.cpu_seconds,
            }

    @property
    def _runs_programs(self) -> bool:
        return any(one.problem.check.runs_program for one in self.checked)

    # -- parts of the report ---------------------------------------------------------------------------------

    def _verdict(self) -> str:
        ran = [one for one in self.checked if one.ran]
        passed = f"{sum(one.passed for one in ran)} of {len(ran)} references pass"
        unread = sum(map(len, self.unread.values()))
        also = f"{counted(unread, 'row')} that make{'s' if unread == 1 else ''} no problem" if unread else ""
        if not self.checked:
            return f"something is wrong: {also or 'no split has a problem'}"
        if self.groups:
            what = f"something is wrong with {len(self.faulty)} of {counted(len(self.checked), 'problem')}"
            return ": ".join([f"{what}, and {also}" if also else what, *([passed] if ran else [])])
        if also:
            return f"something is wrong: {also}" + (f"; {passed}" if ran else "")
        if ran:
            return f"nothing wrong found: {passed}"
        why = "has a reference solution"
        if not self._runs_programs:
            why = "is judged by running a program"
        return f"nothing wrong found, but nothing ran: no problem of this task {why}"

    def _languages(self) -> Iterator[str]:
        """The languages of the programs other than Python, and what is missing for them."""
        needed = {one.problem.check.language for one in self.checked if one.problem.check.runs_program}
        for language in LANGUAGES:
            if language in needed - {"python"}:
                needs = f"needs {LANGUAGES[language].title}: {version(language)}"
                yield needs if toolchain(language) else how_to_install(language)

    def _counts(self) -> Iterator[str]:
        for name, split in self.splits.items():
            ran = [one for one in split if one.ran]
            passed = sum(one.passed for one in ran)
            parts = [counted(len(split), "problem") if split else "no problems"]
            if ran:
                parts.append(f"{counted(passed, 'reference')} pass{'es' if passed == 1 else ''}")
                parts += (
                    [f"{len(ran) - passed} fail{'s' if len(ran) - passed == 1 else ''}"] if passed < len(ran) else []
                )
            if split and len(ran) < len(split):
                parts.append(f"{len(split) - len(ran)} without a reference that runs")
            if self.unread.get(name):
                parts.append(f"{counted(len(self.unread[name]), 'row')} unread")
            yield f"  {name}: {', '.join(parts)}"

    def _unread_rows(self, num_examples: int) -> Iterator[str]:
        """Rows that make no problem, by cause: how many of which split, and the first."""
        kinds: dict[str, dict[str, list[RowError]]] = {}
        for name, errors in self.unread.items():
            for error in errors:
                kinds.setdefault(error.kind, {}).setdefault(name, []).append(error)
        for kind, splits in sorted(kinds.items(), key=lambda item: -sum(map(len, item[1].values()))):
            counts = [f"{counted(len(errors), 'row')} ({name})" for name, errors in splits.items()]
            yield f"{kind}: {', '.join(counts)}"
            yield from (
                f"  {str(error).removesuffix(f'; {REMEDY}')}"
                for error in [one for errors in splits.values() for one in errors][:num_examples]
            )

    def _times(self) -> list[str]:
        ran = sorted((one for one in self.checked if one.ran), key=lambda one: -one.cpu_seconds)[:_SLOWEST]
        if not ran:
            return []
        lines = ["slowest (CPU seconds):", *(f"  {one.problem.task_id}: {one.cpu_seconds:.3f}" for one in ran)]
        if any(one.outcome and one.outcome.passed for one in self.checked):
            limit = calibrated_limit(self.checked)
            lines.append(f"calibrated time limit: {limit:g} s per problem ({HEADROOM:g} x the slowest)")
        return lines

    def _public_checks(self) -> str:
        have = sum(one.problem.public_check is not None for one in self.checked)
        said = f"public checks: {have} of {counted(len(self.checked), 'problem')} have one"
        outcomes = [one.public for one in self.checked if one.public is not None]
        if not outcomes:
            return said
        return f"{said}, {sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} references pass theirs"

    def _splits_of(self, problems: Sequence[Checked]) -> list[str]:
        ids = {id(one) for one in problems}
        return [name for name, split in self.splits.items() if any(id(one) in ids for one in split)]


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 problem, 2 problems."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _examples(problems: Sequence[Checked], count: int) -> Iterator[str]:
    """The first problems of a group, one line each, and how many there are more."""
    for one in problems[:count]:
        yield f"  {one.problem.task_id}: {_how_it_ended(one)}"
    if len(problems) > count:
        yield f"  and {len(problems) - count} more: --examples {len(problems)} shows all, --output FILE writes them"


def _how_it_ended(one: Checked) -> str:
    """The outcome of a problem's reference on one line."""
    failed = one.outcome
    if one.outcome is not None and one.outcome.passed and one.public is not None and not one.public.passed:
        failed = one.public
    if failed is None:
        return f"passed by {' and '.join(one.accepts)}" if one.accepts else "no reference that runs"
    also = "".join(f", and so does {what}" for what in one.accepts)
    return f"the reference passes{also}" if failed.passed else _outcome_text(failed)


def _outcome_text(outcome: Outcome) -> str:
    """Verdict, exception, line, and the message or the case that failed."""
    said = outcome.stderr.strip().splitlines()[-1:] if not outcome.exception_message else [outcome.exception_message]
    if outcome.failed_case and not outcome.exception_type:
        said = [outcome.failed_case.line().removeprefix(": ")]
    parts = [
        str(outcome.verdict),
        outcome.exception_type,
        f"line {outcome.line}" if outcome.line else None,
        *(
            f"({text.splitlines()[0].removeprefix(f'{outcome.exception_type}: ')[:160]})"
            for text in said
            if text.strip()
        ),
    ]
    return " ".join(part for part in parts if part)
