"""An environment gives the next message after each turn, or ends the row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lit_rl.errors import UsageError
from lit_rl.execution.checks import Check
from lit_rl.execution.interface import Outcome
from lit_rl.signature_check import ArgumentChecks, PositiveInt
from lit_rl.types import Problem, Program, StopReason


@dataclass(frozen=True)
class Attempt:
    """One turn of the policy, as an environment sees it.

    Args:
        text: what the policy wrote.
        stop_reason: why it stopped.
        program: the program found in the text, if any.
        outcome: the result under :meth:`Environment.check`; ``None`` if that method returns no check.
    """

    text: str
    stop_reason: StopReason
    program: Program | None
    outcome: Outcome | None


class Environment(ArgumentChecks, ABC):
    """Base class of environments, which answer the policy turn by turn.

    An environment runs nothing itself: :meth:`check` returns a check, the sandbox judges the program under it, and
    :meth:`answer` reads the outcome. One instance serves all rows of all rollouts, so it must not keep the state of a
    conversation.

    Args:
        max_turns: turns of the policy in one row.
        max_message_tokens: longer messages are shortened in the middle; ``None`` for no limit.
        max_row_tokens: most tokens of a row's prompt, turns and messages; a row that leaves no room for a turn ends.
            ``None`` for the policy's context. ``Sampling.max_tokens`` limits each turn.
    """

    def __init__(
        self,
        max_turns: PositiveInt = 1,
        max_message_tokens: PositiveInt | None = None,
        max_row_tokens: PositiveInt | None = None,
    ) -> None:
        self.max_turns = max_turns
        self.max_message_tokens = max_message_tokens
        self.max_row_tokens = max_row_tokens

    def check(self, problem: Problem) -> Check | None:
        """Return the check that judges a program before :meth:`answer`; ``None`` to answer without running the program.

        Never return the hidden ``check``: what the policy is shown must not come from the tests that reward it.
        """
        return None

    def check_problem(self, problem: Problem) -> None:
        """Raise a ValueError of one line, which says what to do, if this problem cannot be played."""
        return

    def reason_unplayable(self, problem: Problem) -> str:
        """Return why this problem cannot be played and so gets one turn; empty if it can."""
        try:
            self.check_problem(problem)
        except ValueError as error:
            return str(error)
        return ""

    @abstractmethod
    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """Return the next message to the policy.

        This is called after each turn but the last that ``max_turns`` allows.

        Args:
            problem: what the conversation is about.
            attempts: all turns so far, at least one.

        Returns:
            the message; ``None`` or an empty text if there is nothing more to say.
        """


def feedback_check(environment: Environment, problem: Problem) -> Check | None:
    """Return the check that judges a program before the environment answers; never the problem's hidden tests."""

    def asked(check: Check | None) -> dict[str, Any]:
        return {} if check is None else {"kind": type(check), **vars(check), "timeout_seconds": None}

    check = environment.check(problem)
    if check is None or check is problem.public_check:
        return check
    if asked(check) == asked(problem.check) != asked(problem.public_check):
        raise UsageError(
            f"{type(environment).__name__}.check returns the hidden tests of problem {problem.task_id}, which "
            "feedback would leak to the policy: return problem.public_check, or a check made of the tests in the "
            "prompt"
        )
    return check


class SingleTurn(Environment):
    """Environment in which the policy answers once."""

    def __init__(self) -> None:
        super().__init__(max_turns=1)

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """Return no message."""
        return None
