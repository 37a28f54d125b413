"""Prompt batch in, judged completions out: the only place where the stations are joined.

A program starts to run as soon as its completion is finished, while others are still being sampled, so
execution hides behind sampling and training stays on-policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from lit_rl.engines.base import Engine
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.program import Wanted
from lit_rl.execution.runner import ProgramRunner
from lit_rl.models.policy import Policy
from lit_rl.models.streams import StreamKey
from lit_rl.rewards.base import RewardOutput
from lit_rl.types import Completions, Judgement, Problem, Program, Sampling


class InfrastructureError(RuntimeError):
    """Too many programs could not be judged for reasons that are ours."""


@dataclass(frozen=True)
class Rollout:
    """Completions and what their programs did, row by row."""

    completions: Completions
    judgements: tuple[Judgement, ...]

    @property
    def infrastructure_failures(self) -> int:
        """Rows whose program could not be judged through no fault of its own."""
        return sum(j.outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE for j in self.judgements)


@dataclass(frozen=True)
class Evaluated:
    """What a validation batch produced.

    Args:
        rollouts: by the name of the sampling.
        rewards: of the same rows, by the same names; none if the module has no reward terms.
        silence: what the empty program came to, by task id, for problems whose checks have stages.
    """

    rollouts: Mapping[str, Rollout]
    rewards: Mapping[str, RewardOutput] = field(default_factory=dict)
    silence: Mapping[str, Outcome] = field(default_factory=dict)


def collect(
    policy: Policy,
    engine: Engine,
    runner: ProgramRunner | None,
    problems: Sequence[Problem],
    sampling: Sampling,
    key: StreamKey,
) -> Rollout:
    """Sample completions for the problems and judge them.

    Args:
        policy: what writes.
        engine: what samples.
        runner: what executes; ``None`` only for tasks without programs.
        problems: B problems; none is allowed (a rank whose share has run out).
        sampling: how; N = B * ``sampling.num_samples`` rows.
        key: names the random streams.

    Returns:
        N completions and judgements, prompt-major.
    """
    judge = Judge(runner, [problem for problem in problems for _ in range(sampling.num_samples)])
    completions = engine.generate(policy, policy.codec.prompts(problems, policy.device), sampling, key, judge.start)
    return Rollout(completions, judge.finish(completions))


class Judge:
    """Judges the rows of one rollout; equal programs for equal problems run once.

    Args:
        runner: what executes.
        problems: N problems, one per row.
    """

    def __init__(self, runner: ProgramRunner | None, problems: Sequence[Problem]) -> None:
        self._runner = runner
        self._problems = problems
        self._programs: dict[int, Program | None] = {}
        self._outcomes: dict[int, Future[Outcome]] = {}
        self._started: dict[tuple[str, str], Future[Outcome]] = {}

    def start(self, row: int, text: str) -> None:
        """Find the program in a finished completion and start it, if the problem runs programs."""
        problem = self._problems[row]
        program = self._programs[row] = find_program(problem, text)
        if program is None or not problem.check.runs_program:
            self._outcomes[row] = _done(Outcome(Verdict.NO_PROGRAM))
            return
        if self._runner is None:
            raise InfrastructureError(f"problem {problem.task_id} has a program to run, but there is no sandbox")
        key = (problem.task_id, program.source)
        if key not in self._started:
            self._started[key] = self._runner.submit(program.source, problem.check)
        self._outcomes[row] = self._started[key]

    def finish(self, completions: Completions) -> tuple[Judgement, ...]:
        """Wait for all programs. Rows that the engine did not stream are started here."""
        for row, text in enumerate(completions.texts):
            if row not in self._outcomes:
                self.start(row, text)
        return tuple(
            Judgement(problem, self._programs[row], self._outcomes[row].result())
            for row, problem in enumerate(self._problems)
        )


def find_program(problem: Problem, text: str) -> Program | None:
    """The program that a completion stands for.

    The problem's check says where it is, most by the rule of :func:`lit_rl.execution.extract_program`; the problem's
    ``program_prefix`` comes before it: in completion form the prompt that the text goes on from, else imports and
    helpers.

    Args:
        problem: the problem the completion answers.
        text: of the completion.

    Returns:
        the program and its place in the text, or ``None`` if there is none.
    """
    entry_point = problem.check.defines or problem.fields.get("entry_point")
    begun = problem.program_prefix if problem.continues_program else ""
    wanted = Wanted(problem.check.language, entry_point, begun)
    found = problem.check.extract(text, wanted, problem.extraction)
    if found is None:
        return None
    prefix = problem.program_prefix
    if found.fenced and prefix and not prefix.endswith("\n"):
        prefix += "\n"
    return Program(
        prefix + found.source, found.start, found.end, prefix.count("\n"), fenced=found.fenced, removed=found.removed
    )


def require_infrastructure(rollout: Rollout, largest_share: float) -> None:
    """Stop when too many programs could not be judged: learning from what is left would be learning from us.

    A single one never is too many, unless ``largest_share`` is 0: in a small rollout it would be a large share.

    Raises:
        InfrastructureError: the share of infrastructure failures is above ``largest_share``.
    """
    failures, rows = rollout.infrastructure_failures, len(rollout.judgements)
    if failures > max(largest_share * rows, 1 if largest_share else 0):
        message = next(
            j.outcome.stderr for j in rollout.judgements if j.outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE
        )
        raise InfrastructureError(
            f"{failures} of {rows} programs could not be judged (at most {largest_share:.0%} may fail); "
            f"the first said: {message.strip() or 'nothing'}. Look at docs/sandbox.md, or raise "
            "max_infrastructure_failures if this is expected"
        )


def _done(outcome: Outcome) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future
