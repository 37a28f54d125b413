"""Causes that make small runs ill: engines that are off, rewards and judges that do harm, tasks that fit neither."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess
from lit_rl.engines.engine import Engine, Session
from lit_rl.execution import AssertTests
from lit_rl.execution.interface import Check, Outcome, ProgramRunner, Verdict
from lit_rl.types import Generation, Problem, Request, Sampling
from support.small_runs import Scored

# -- rewards -------------------------------------------------------------------------------------------------


class Constant(Scored):
    """The same for all rows."""

    def __init__(self) -> None:
        super().__init__(0.0, "constant")


# -- tasks and judges ----------------------------------------------------------------------------------------


class Programs(TaskDataModule):
    """Prompts whose completions are programs."""

    name = "programs"

    def load_problems(self, split: Split) -> list[Problem]:
        check = AssertTests("assert True")
        return [Problem(f"{split}{i}", "p" * (1 + i % 5), check) for i in range(12)]


class Judged(ProgramRunner):
    """Runs nothing: says of each program what it is told."""

    def __init__(self, verdict: Verdict = Verdict.PASSED, share: float = 1.0) -> None:
        self.verdict, self.share = verdict, share
        self.calls = 0.0

    def judge(self, program: str) -> Verdict:
        before, self.calls = self.calls, self.calls + self.share
        return self.verdict if int(before) < int(self.calls) else Verdict.WRONG_ANSWER

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        done.set_result(Outcome(self.judge(program)))
        return done

    def close(self) -> None:
        pass


# -- engines -------------------------------------------------------------------------------------------------


class Around(Engine):
    """Another engine's sessions, their answers changed on the way."""

    in_rounds = True
    shares_weights = True

    def __init__(self) -> None:
        self.inner = InProcess()

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with self.inner.session(policy, sampling) as session:
            yield _Changed(session, self)

    def change(self, generation: Generation) -> Generation:
        return generation


class _Changed(Session):
    def __init__(self, inner: Session, engine: Around) -> None:
        self.inner, self.engine = inner, engine

    def submit(self, requests: Sequence[Request]) -> None:
        self.inner.submit(requests)

    def step(self) -> list[Generation]:
        return [self.engine.change(generation) for generation in self.inner.step()]

    @property
    def num_unfinished(self) -> int:
        return self.inner.num_unfinished


class Copies(Engine):
    """Samples with a copy of the weights, renewed where ``renew`` says so of its version and the present one.

    With ``hides`` it says that it is up to date; ``top_k`` is a filter that nobody asked for.
    """

    def __init__(self, renew: Callable[[int, int], bool], hides: bool = False, top_k: int | None = None) -> None:
        self.renew, self.hides, self.top_k = renew, hides, top_k
        self.copy: Any = None

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        if self.copy is None or self.renew(self.copy.version, policy.version):
            self.copy = copy.deepcopy(policy)
        if self.hides:
            self.copy.version = policy.version
        with InProcess().session(self.copy, replace(sampling, top_k=self.top_k or sampling.top_k)) as session:
            yield session


# -- policies ------------------------------------------------------------------------------------------------
