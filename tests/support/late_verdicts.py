"""A task whose programs are judged when a test says so, for runs that sample while programs run."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess, Session
from lit_rl.execution import Check, Outcome, ProgramRunner, Verdict
from lit_rl.execution.program import ExtractedProgram
from lit_rl.models.policy import Policy
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, Sampling


@dataclass(frozen=True)
class WholeText(Check):
    """Every completion is a program."""

    judged_by = "tests:nobody"
    cell: tuple[int, ...] = ()
    passes: bool | None = None
    """True if every program passes, false if none does; ``None`` if that depends on the program."""

    @property
    def numbers(self) -> tuple[int, ...] | None:
        return self.cell or None

    def extract(self, text: str, *args: Any) -> ExtractedProgram:
        return ExtractedProgram(text, 0, len(text.encode()), False)


class Late(ProgramRunner):
    """Gives verdicts, which depend on the program alone, when :meth:`answer` is called, or at once.

    Args:
        at_once: whether nothing has to be waited for.
    """

    def __init__(self, at_once: bool = True) -> None:
        self.at_once = at_once
        self.open: list[tuple[Future[Outcome], Outcome]] = []
        self.answered = 0

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        passes = getattr(check, "passes", None)
        passed = zlib.crc32(program.encode()) % 2 if passes is None else passes
        verdict = Verdict.PASSED if passed else Verdict.WRONG_ANSWER
        self.open.append((Future(), Outcome(verdict)))
        future = self.open[-1][0]
        if self.at_once:
            self.answer()
        return future

    def answer(self) -> None:
        for future, outcome in self.open:
            future.set_result(outcome)
        self.answered += len(self.open)
        self.open.clear()

    def close(self) -> None: ...


class Counting(InProcess):
    """Calls a function at the beginning of each session, with the session's number from 0."""

    def __init__(self, then: Callable[[int], None] = lambda number: None) -> None:
        super().__init__()
        self.sessions = 0
        self.then = then

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        self.then(self.sessions)
        self.sessions += 1
        with super().session(policy, sampling) as session:
            yield session


class PassedAndEven(RewardTerm):
    """1 for a program that passed, and the share of even ids."""

    default_name = "passed"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        rows = zip(completions.completion_ids.tolist(), completions.lengths.tolist(), judgements, strict=True)
        return [TermScore(sum(i % 2 == 0 for i in ids[:n]) / n + judged.outcome.passed) for ids, n, judged in rows]


class Programs(TaskDataModule):
    """Twelve problems of unequal prompts, each with a program."""

    name = "programs"

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{split}{i}", "w" * (1 + i % 5), WholeText()) for i in range(12)]


class Sided(Programs):
    """The same, a third of which always pass and a third never."""

    def load_problems(self, split: Split) -> list[Problem]:
        checks = [WholeText(passes=passes) for passes in (None, True, False)]
        return [replace(one, check=checks[i % 3]) for i, one in enumerate(super().load_problems(split))]
