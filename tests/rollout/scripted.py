"""An engine that says what a script tells it, and an environment that a test can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from lit_rl.engines import Engine, Generation, Request, Session
from lit_rl.execution import Check, Outcome, ProgramRunner, Verdict
from lit_rl.models.policy import Policy
from lit_rl.rollout import Attempt, Environment
from lit_rl.types import Problem, Sampling, StopReason


class Scripted(Engine):
    """Says the n-th text of a row's script in its n-th turn, the row with the longest text last.

    Args:
        script: texts of each row, one per turn.
        in_rounds: see :class:`Engine`.
    """

    def __init__(self, script: Sequence[Sequence[str]], in_rounds: bool = True) -> None:
        self.script = script
        self.in_rounds = in_rounds
        self.requests: list[Request] = []
        self.log: list[str] = []

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        self.log.append("open")
        yield _Speaking(self, policy)
        self.log.append("closed")


class _Speaking(Session):
    def __init__(self, engine: Scripted, policy: Policy) -> None:
        self.engine = engine
        self.codec = policy.codec
        self.waiting: list[tuple[int, Generation]] = []

    @property
    def num_unfinished(self) -> int:
        return len(self.waiting)

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            turn = sum(earlier.row == request.row for earlier in self.engine.requests)
            self.engine.requests.append(request)
            self.engine.log.append(f"ask {request.row}")
            ids = self.codec.encode_completion(self.engine.script[request.row][turn])[0][: request.max_tokens]
            reason = StopReason.EOS if ids[-1] in self.codec.eos_ids else StopReason.LENGTH
            logprobs = tuple(-0.5 - turn for _ in ids)
            self.waiting.append((len(ids), Generation(request.row, ids, logprobs, reason, weights_version=turn)))

    def step(self) -> list[Generation]:
        soonest = min(self.waiting, key=lambda entry: entry[0])
        self.waiting.remove(soonest)
        self.engine.log.append(f"said {soonest[1].row}")
        return [soonest[1]]


class Passing(ProgramRunner):
    """Passes programs that hold the check's entry; remembers what it was asked."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, Check]] = []

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        self.runs.append((program, check))
        done: Future[Outcome] = Future()
        wanted = check.test  # type: ignore[attr-defined]
        done.set_result(Outcome(Verdict.PASSED if wanted in program else Verdict.WRONG_ANSWER))
        return done

    def close(self) -> None: ...


class Again(Environment):
    """Says ``Again.`` until the public check passes."""

    def check(self, problem: Problem) -> Check | None:
        return problem.public_check

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        return None if attempts[-1].outcome.passed else "Again."
