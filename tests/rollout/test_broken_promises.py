"""Engines and environments that break their contract: one error line, no hang, no bad tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from rollout.scripted import Again, Passing, Scripted

from lit_rl.engines import Engine, Generation
from lit_rl.execution import AssertTests
from lit_rl.models import CausalLM
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout import Attempt, Environment, sample_rows
from lit_rl.types import Problem, Sampling, StopReason

PROBLEM = Problem("t", "ab", AssertTests("best"), public_check=AssertTests("good"))
Change = Callable[[list[Generation]], Any]


class Changed(Scripted):
    """Says what it should, changed at the last moment."""

    def __init__(self, change: Change, count: Callable[[int], int] = lambda n: n) -> None:
        super().__init__([["good"], ["good"]])
        self.change = change
        self.count = count

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Any:
        with super().session(policy, sampling) as session:
            engine = self

            class Mine(type(session)):  # type: ignore[misc]
                def step(self) -> Any:
                    return engine.change(super().step())

                @property
                def num_unfinished(self) -> int:
                    return engine.count(len(self.waiting))

            session.__class__ = Mine
            yield session


def play(policy: CausalLM, engine: Engine, environment: Environment | None = None, problem: Problem = PROBLEM) -> Any:
    sampling = Sampling(num_samples=2, max_tokens=9)
    key = RandomKey(0, "test", 0)
    return sample_rows(policy, engine, Passing(), [problem], sampling, key, environment).finish()


def scored(done: list[Generation], logprob: float) -> list[Generation]:
    return [replace(one, logprobs=(logprob, *one.logprobs[1:])) for one in done]


def ended(done: list[Generation], last: int) -> list[Generation]:
    return [replace(one, ids=(*one.ids[:-1], last)) for one in done]


ENGINES: dict[str, tuple[Engine, str]] = {
    "answers a row twice": (Changed(lambda done: done * 2), "answered row 0, which is not being asked for"),
    "forgets a row": (Changed(lambda done: [one for one in done if one.row]), r"is 1, but 2 .*rows \[0, 1\]\)"),
    "says that it is done": (Changed(lambda done: done, lambda n: 0), "num_unfinished is 0, but 1 requests"),
    "says too much": (Changed(lambda done: [replace(done[0], ids=(1,) * 10)]), "10 ids, but 1 to 9 were asked for"),
    "goes on after EOS": (
        Changed(lambda done: [replace(one, ids=(one.ids[-1], *one.ids[1:])) for one in done]),
        "ids after EOS: end a completion at each of",
    ),
    "leaves EOS unscored": (Changed(lambda done: [replace(done[0], logprobs=(0.0,))]), "1 log-probabilities for 5 ids"),
    "leaves EOS out": (
        Changed(lambda done: [replace(done[0], ids=done[0].ids[:-1], logprobs=done[0].logprobs[:-1])]),
        r"the reason eos, but its last id is \d+: keep the id of EOS, one of \[256\]",
    ),
    "is not sure": (Changed(lambda done: scored(done, math.nan)), "a log-probability that is no number"),
    "goes beyond the vocabulary": (
        Changed(lambda done: ended(done, 10**6)),
        "an id outside the policy's vocabulary of 258",
    ),
}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_told_in_one_line(tiny_policy: CausalLM, name: str) -> None:
    engine, message = ENGINES[name]
    with pytest.raises(ValueError, match=message) as raised:
        play(tiny_policy, engine)
    assert str(raised.value).startswith("Mine.") and "\n" not in str(raised.value)


def saying(message: Any) -> Environment:
    class Mine(Environment):
        def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> Any:
            return message() if callable(message) else message

    return Mine(max_turns=2)


def showing(check: Callable[[Problem], Any]) -> Environment:
    class Shows(Again):
        def check(self, problem: Problem) -> Any:
            return check(problem)

    return Shows(max_turns=2)


@pytest.mark.parametrize(
    "check",
    [
        lambda problem: problem.check,
        lambda problem: replace(problem.check, timeout_seconds=1.0),
        lambda problem: AssertTests("best"),
    ],
)
def test_feedback_from_the_hidden_tests_is_refused(tiny_policy: CausalLM, check: Callable[[Problem], Any]) -> None:
    """Under another time limit too, and before the first program has run under them."""
    with pytest.raises(ValueError, match=r"Shows.check returns the hidden tests of problem t, .* problem.public_check"):
        play(tiny_policy, Scripted([["bad"], ["bad"]]), showing(check))
    with pytest.raises(ValueError, match="hidden tests of problem t"):
        play(tiny_policy, Scripted([["bad"], ["bad"]]), showing(check), replace(PROBLEM, public_check=None))


def test_tests_that_are_public_or_the_environment_s_own_may_be_shown(tiny_policy: CausalLM) -> None:
    """A task may make all its tests public, and an environment may think of some."""
    for check, problem in (
        (lambda problem: problem.check, replace(PROBLEM, public_check=AssertTests("best"))),
        (lambda problem: AssertTests("nice"), PROBLEM),
        (lambda problem: AssertTests("best", "f"), PROBLEM),
    ):
        rollout = play(tiny_policy, Scripted([["bad", "best"]] * 2), showing(check), problem)
        assert [len(turns) for turns in rollout.completions.turns] == [2, 2]


def test_an_empty_message_ends_the_conversation(tiny_policy: CausalLM) -> None:
    rows = play(tiny_policy, Scripted([["bad"], ["bad"]]), saying("")).completions
    assert [len(turns) for turns in rows.turns] == [1, 1] and rows.stop_reasons == (StopReason.EOS,) * 2
