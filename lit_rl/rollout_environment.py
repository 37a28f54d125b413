"""What answers a policy between its turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lit_rl.execution.checks import Check
from lit_rl.execution.outcome import Outcome
from lit_rl.types import Problem, Program, StopReason


@dataclass(frozen=True)
class Attempt:
    """What the policy said in one turn, and what became of it.

    Args:
        text: of the turn, without EOS, cut at the stop string.
        stop_reason: why the turn ended.
        program: found in the text, or ``None`` if there is none.
        outcome: under :meth:`Environment.check`; ``None`` where the environment has nothing judged.
    """

    text: str
    stop_reason: StopReason
    program: Program | None
    outcome: Outcome | None


class Environment(ABC):
    """Decides after each turn whether the policy speaks again, and what it reads before it does.

    An environment is a function of the problem and the attempts: it keeps nothing between calls, so that rows can be
    played in any order and a run resumes exactly.

    Attributes:
        max_turns: most turns of the policy in a row.
        max_message_tokens: most tokens of one message; a longer one is shortened in its middle. ``None``: no limit.
        max_row_tokens: tokens of all turns and messages of a row, after which there is no further turn.
    """

    max_turns: int = 1
    max_message_tokens: int | None = None
    max_row_tokens: int | None = None

    def check(self, problem: Problem) -> Check | None:
        """What a turn is judged by before the environment answers; ``None`` to have nothing judged."""
        return None

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem that cannot be played.

        Raises:
            ValueError: one line that says what to do.
        """
        return

    @abstractmethod
    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """The next message to the policy; ``None`` if there is nothing more to say.

        Args:
            problem: what the conversation is about.
            attempts: at least one; all turns of the policy so far.
        """
