"""One row while it grows: the prompt, the policy's turns, and what the environment said between them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from concurrent.futures import Future

from lit_rl.execution.outcome import Outcome
from lit_rl.rollout.environment import Attempt
from lit_rl.types import Judgement, Problem, Program, Turn


class Conversation:
    """A row of the rollout that is being written.

    Args:
        problem: what it is about.
        group: number of the problem in the rollout.
        sample: number of the row among those of its problem.
        prompt_ids: ids of the prompt.
        max_turns: turns that the policy may have.
    """

    def __init__(
        self, problem: Problem, group: int, sample: int, prompt_ids: tuple[int, ...], max_turns: int = 1
    ) -> None:
        self.problem = problem
        self.group = group
        self.sample = sample
        self.prompt_ids = prompt_ids
        self.max_turns = max_turns
        self.ids = array("q")
        self.chosen = bytearray()  # 1 for what the policy chose
        self.logprobs = array("d")
        self.turns: list[Turn] = []
        self.programs: list[Program | None] = []
        self.outcomes: list[Future[Outcome]] = []
        self.shown: list[Future[Outcome] | None] = []
        self.versions: list[int] = []

    @property
    def num_tokens(self) -> int:
        """Tokens of the prompt and of everything since."""
        return len(self.prompt_ids) + len(self.ids)

    def add_turn(self, ids: Sequence[int], logprobs: Sequence[float], turn: Turn, version: int) -> None:
        """Append what the policy said."""
        self.ids += array("q", ids)
        self.chosen.extend(b"\1" * len(ids))
        self.logprobs += array("d", logprobs)
        self.turns.append(turn)
        self.versions.append(version)

    def add_message(self, ids: Sequence[int]) -> None:
        """Append what the environment said; the policy did not choose it, so it has no log-probabilities."""
        self.ids += array("q", ids)
        self.chosen.extend(b"\0" * len(ids))
        self.logprobs += array("d", [0.0]) * len(ids)

    @property
    def is_answerable(self) -> bool:
        """Whether every outcome that the environment may use is known."""
        return all(outcome is None or outcome.done() for outcome in self.shown)

    def attempts(self) -> list[Attempt]:
        """All turns so far, as the environment sees them."""
        return [
            Attempt(turn.text, turn.stop_reason, program, None if shown is None else shown.result())
            for turn, program, shown in zip(self.turns, self.programs, self.shown, strict=True)
        ]

    def judgements(self) -> tuple[Judgement, ...]:
        """One judgement per turn; waits for programs that still run."""
        return tuple(
            Judgement(self.problem, program, outcome.result())
            for program, outcome in zip(self.programs, self.outcomes, strict=True)
        )
