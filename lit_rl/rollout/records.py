"""Rollouts for modules and callbacks: judged programs, rewards, experience and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lit_rl.errors import LitRLError
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.execution.interface import Outcome, ProgramRunner, Verdict
from lit_rl.execution.program import WantedProgram, move_future_imports_first
from lit_rl.rewards.term import RewardOutput
from lit_rl.types import Completions, Experience, Judgement, Problem, Program


@dataclass(frozen=True)
class Rollout:
    """N rows of turns and the judgements of their programs.

    Args:
        completions: the rows.
        judgements: N judgements, of each row's last turn; they decide the reward.
        turn_judgements: N tuples, one judgement per turn of the row, under the same check. A row's last one is its
            entry in ``judgements``.
        max_turns: turns that a row could have had.
    """

    completions: Completions
    judgements: tuple[Judgement, ...]
    turn_judgements: tuple[tuple[Judgement, ...], ...] = ()
    max_turns: int = 1

    def __post_init__(self) -> None:
        if not self.turn_judgements:
            object.__setattr__(self, "turn_judgements", tuple((judgement,) for judgement in self.judgements))

    def judgements_after_turn(self, number: int) -> tuple[Judgement, ...]:
        """Return N judgements, of each row after ``number`` turns; a row with fewer turns keeps its last judgement."""
        return tuple(of_row[min(number, len(of_row)) - 1] for of_row in self.turn_judgements)


class FinishedRollout(NamedTuple):
    """A training rollout of one rank with its rewards, experience and metrics.

    After the updates, each callback that has ``on_rollout_end(trainer, module, finished)`` is called with this object,
    on every rank, inside the training step: ``module.log`` works there, and ``module.clock.count`` counts this rollout.
    The fields are the objects that the update used; a callback must not change them.

    Attributes:
        rollout: N rows of turns and their judgements.
        rewards: rewards of the same rows.
        experience: the tensors made from them; log-probabilities are ``None`` if nothing read them.
        metrics: what was logged about this rollout, means over all ranks.
    """

    rollout: Rollout
    rewards: RewardOutput
    experience: Experience
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Evaluated:
    """Result of a validation batch.

    Args:
        rollouts: rollouts by the name of the sampling.
        rewards: rewards of the same rows, by the same names; empty if the module has no reward terms.
        empty_outcomes: outcome of the empty program by task id, for problems whose checks have stages.
    """

    rollouts: Mapping[str, Rollout]
    rewards: Mapping[str, RewardOutput] = field(default_factory=dict)
    empty_outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Evaluated:
        """Return the same result on a device; Lightning moves predictions that it keeps to the CPU."""

        def moved(part: Any) -> dict[str, Any]:
            known = ((one.name, getattr(part, one.name)) for one in fields(part))
            return {name: value.to(device) for name, value in known if isinstance(value, Tensor)}

        rollouts = {
            name: replace(one, completions=replace(one.completions, **moved(one.completions)))
            for name, one in self.rollouts.items()
        }
        rewards = {
            name: replace(one, **moved(one), term_values={term: v.to(device) for term, v in one.term_values.items()})
            for name, one in self.rewards.items()
        }
        return replace(self, rollouts=rollouts, rewards=rewards)


class InfrastructureError(LitRLError, RuntimeError):
    """Too many programs could not be judged, through no fault of their own."""


class Judge:
    """Runs programs; equal programs of one problem run once under each check.

    Without ``every_case``, cases of :class:`StdioTests` run only up to the first that fails.
    """

    def __init__(self, runner: ProgramRunner | None, every_case: bool = True) -> None:
        self._runner = runner
        self._every_case = every_case
        # The check is stored too, to keep it alive: an id is unique only among living objects.
        self._started: dict[tuple[str, int, str], tuple[Check, Future[Outcome]]] = {}

    def start_program(self, problem: Problem, program: Program | None, check: Check) -> Future[Outcome]:
        """Run a program if there is one and the check runs programs; otherwise give ``no_program`` immediately."""
        if program is None or not check.runs_program:
            nothing: Future[Outcome] = Future()
            nothing.set_result(Outcome(Verdict.NO_PROGRAM))
            return nothing
        if self._runner is None:
            raise InfrastructureError(
                f"problem {problem.task_id} has a program to run, but there is no sandbox: pass sandbox=Sandbox()"
            )
        key = (problem.task_id, id(check), program.source)
        if key not in self._started:
            asked = check
            if not self._every_case and check is problem.check and isinstance(check, StdioTests):
                asked = replace(check, stop_at_failure=True)
            self._started[key] = check, self._runner.submit(program.source, asked)
        return self._started[key][1]


def find_program(problem: Problem, text: str, in_thought: bool = False) -> Program | None:
    """Return the program in a completion.

    The problem's check finds the program, usually with :func:`lit_rl.execution.extract_program`. The problem's
    ``program_prefix`` comes before it: the prompt that the text continues in completion form, else imports and helpers.

    Args:
        problem: the problem the completion answers.
        text: text of the completion.
        in_thought: whether the prompt before it opened a thought, see :attr:`lit_rl.types.Turn.in_thought`.

    Returns:
        the program and its place in the text, or ``None`` if there is none.
    """
    entry_point = problem.check.defines or problem.fields.get("entry_point")
    given_prefix = problem.program_prefix if problem.continues_program else ""
    wanted = WantedProgram(problem.check.language, entry_point, given_prefix, in_thought)
    found = problem.check.extract(text, wanted, problem.extraction)
    if found is None:
        return None
    prefix, source = problem.program_prefix, found.source
    if found.fenced and prefix and not prefix.endswith("\n"):
        prefix += "\n"
    if problem.check.language == "python":
        prefix, source = move_future_imports_first(prefix, source)
    return Program(
        prefix + source, found.start, found.end, prefix.count("\n"), fenced=found.fenced, removed=found.removed
    )


def reference_program(problem: Problem) -> str | None:
    """Return the reference as a program; in Python, its future imports come before the problem's prefix."""
    prefix, reference = problem.program_prefix, problem.reference
    if reference is None or problem.check.language != "python" or not reference.startswith(prefix):
        return reference
    return "".join(move_future_imports_first(prefix, reference.removeprefix(prefix)))


def reference_answer(problem: Problem) -> str:
    """Return the reference in the form that the prompt asks for, in which :func:`find_program` finds it again.

    The form is a completion that continues the prompt, or a fenced block in the problem's language, without the opening
    fence if the prompt ends with it. It is plain text if only reward terms read the completion, or if a stop string
    would cut the block.
    """
    assert problem.reference is not None
    rest = problem.reference.removeprefix(problem.program_prefix)
    if not problem.check.runs_program or (problem.continues_program and rest != problem.reference):
        return rest
    block = f"{rest.strip(chr(10))}\n```"
    if not problem.prompt_opens_fence:
        block = f"```{problem.check.language}\n{block}"
    for answer in (block, rest) if isinstance(problem.prompt, str) else ():
        cuts = (answer.find(string) for string in problem.stop_strings)
        found = find_program(problem, answer[: min((at for at in cuts if at >= 0), default=len(answer))])
        if found is not None and found.source.strip("\n").endswith(rest.strip("\n")):
            return answer
    return block
