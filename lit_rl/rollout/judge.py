"""From a finished turn to its judgement: find the program, run it once, tell infrastructure failures from its own."""

from __future__ import annotations

from concurrent.futures import Future

from lit_rl.arguments import LitRLError
from lit_rl.execution.checks import Check
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.program import Wanted
from lit_rl.execution.runner import ProgramRunner
from lit_rl.rollout.records import Rollout
from lit_rl.types import Problem, Program


class InfrastructureError(LitRLError, RuntimeError):
    """Too many programs could not be judged, through no fault of their own."""


class Judge:
    """Has programs run; equal programs of one problem run once under each check.

    Args:
        runner: what executes; ``None`` only for tasks without programs.
    """

    def __init__(self, runner: ProgramRunner | None) -> None:
        self._runner = runner
        # The check is stored too, to keep it alive: an id is unique only among living objects.
        self._started: dict[tuple[str, int, str], tuple[Check, Future[Outcome]]] = {}

    def start(self, problem: Problem, program: Program | None, check: Check) -> Future[Outcome]:
        """Run a program, if there is one and the check runs programs.

        Args:
            problem: what the program answers.
            program: found in the policy's turn.
            check: the problem's own, or its public one.

        Returns:
            the outcome to come; ``no_program`` at once if nothing runs.

        Raises:
            InfrastructureError: there is a program to run and no sandbox.
        """
        if program is None or not check.runs_program:
            return _done(Outcome(Verdict.NO_PROGRAM))
        if self._runner is None:
            raise InfrastructureError(f"problem {problem.task_id} has a program to run, but there is no sandbox")
        key = (problem.task_id, id(check), program.source)
        if key not in self._started:
            self._started[key] = check, self._runner.submit(program.source, check)
        return self._started[key][1]


def find_program(problem: Problem, text: str) -> Program | None:
    """The program in a completion.

    The problem's check finds it, usually by :func:`lit_rl.execution.extract_program`; the problem's
    ``program_prefix`` is put before it: in completion form the prompt that the text continues, else imports and
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
    """Stop when too many programs could not be judged: the rows that are left would be a biased sample.

    A single failure is allowed unless ``largest_share`` is 0, because in a small rollout one is a large share.

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
            f"the first said: {message.strip() or 'nothing'}. See lit-rl docs sandbox, or raise "
            "collect.max_failures if this is expected"
        )


def _done(outcome: Outcome) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future
