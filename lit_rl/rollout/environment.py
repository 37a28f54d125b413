"""What an environment is: after each turn it says the next message, or nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lit_rl.bounds import require_at_least
from lit_rl.execution.checks import Check
from lit_rl.execution.outcome import Outcome
from lit_rl.types import Problem, Program, StopReason


@dataclass(frozen=True)
class Attempt:
    """One turn of the policy, as an environment sees it.

    Args:
        text: what the policy wrote.
        stop_reason: why it stopped.
        program: the program found in the text, if any.
        outcome: what happened to it under :meth:`Environment.check`; ``None`` if the environment asks for none.
    """

    text: str
    stop_reason: StopReason
    program: Program | None
    outcome: Outcome | None


class Environment(ABC):
    """Answers the policy, turn by turn.

    An environment runs nothing itself: it names the check that it wants to know about, the collector has the
    program judged, and :meth:`answer` reads what happened. One instance serves all rows of all rollouts, so it
    keeps no state of a conversation: everything it may look at is in the arguments.

    Args:
        max_turns: turns of the policy in one row.
        max_message_tokens: longer messages are shortened in the middle; ``None`` for no limit.
        max_row_tokens: prompt, turns and messages of one row together; a row that leaves no room for another turn
            ends. ``None`` for the policy's own positions. ``Sampling.max_tokens`` limits each turn.
    """

    def __init__(
        self, max_turns: int = 1, max_message_tokens: int | None = None, max_row_tokens: int | None = None
    ) -> None:
        require_at_least(1, max_turns=max_turns, max_message_tokens=max_message_tokens, max_row_tokens=max_row_tokens)
        self.max_turns = max_turns
        self.max_message_tokens = max_message_tokens
        self.max_row_tokens = max_row_tokens

    def check(self, problem: Problem) -> Check | None:
        """What a program is judged under before :meth:`answer`; ``None`` to answer without running it.

        Never the problem's hidden ``check``: what the policy is shown must not come from the tests that reward it.
        """
        return None

    def check_problem(self, problem: Problem) -> None:
        """Check whether this problem can be played.

        Raises:
            ValueError: it cannot; the message is one line that says what to do.
        """
        return

    def refusal(self, problem: Problem) -> str:
        """Why this problem cannot be played, so that it has one turn; empty if it can."""
        try:
            self.check_problem(problem)
        except ValueError as error:
            return str(error)
        return ""

    @abstractmethod
    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """The next message to the policy.

        Called after each turn but the last that ``max_turns`` allows.

        Args:
            problem: what the conversation is about.
            attempts: all turns so far, at least one.

        Returns:
            the message, or ``None`` if there is nothing more to say.
        """
