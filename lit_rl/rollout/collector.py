"""The event loop of a rollout: engine step, decode, judge, environment, next request.

A program starts to run as soon as its turn is finished, while other rows are still being sampled, so execution
overlaps with sampling and training stays on-policy.

Letters: B problems, G samples of each, N = B * G rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, wait

from lit_rl.arguments import UsageError
from lit_rl.engines.base import Engine, Generation, Request, Session
from lit_rl.engines.checked import CheckedSession
from lit_rl.execution.runner import ProgramRunner
from lit_rl.models.decoding.streams import StreamKey
from lit_rl.models.policy import Policy
from lit_rl.rollout.conversation import Conversation
from lit_rl.rollout.environment import Environment, ask, check_before_answer, require_environment
from lit_rl.rollout.judge import Judge, find_program
from lit_rl.rollout.pending import PendingRollout
from lit_rl.rollout.single_turn import SingleTurn
from lit_rl.training.progress import Progress
from lit_rl.types import Problem, Sampling, Turn


def write_rows(
    policy: Policy,
    engine: Engine,
    runner: ProgramRunner | None,
    problems: Sequence[Problem],
    sampling: Sampling,
    key: StreamKey,
    environment: Environment | None = None,
    progress: Progress | None = None,
) -> PendingRollout:
    """Sample rows for the problems and start their programs; ``.finish()`` of what it returns waits for the verdicts.

    Args:
        policy: what writes.
        engine: what samples.
        runner: what executes; ``None`` only for tasks without programs.
        problems: B problems; B may be 0 (a rank whose share has run out).
        sampling: how; N = B * ``sampling.num_samples`` rows.
        key: names the random streams.
        environment: what answers the policy; by default each row is one turn.
        progress: kept up to date while rows are written and judged.

    Returns:
        N rows, prompt-major.

    Raises:
        ValueError: a prompt leaves no room for a turn, or engine or environment break a promise.
    """
    environment = SingleTurn() if environment is None else environment
    progress = Progress() if progress is None else progress
    require_environment(environment)
    conversations = []
    for group, problem in enumerate(problems):
        prompt = policy.codec.encode(problem)
        if not environment.leaves_room(len(prompt)):
            raise UsageError(
                f"the prompt of problem {problem.task_id} has {len(prompt)} tokens, and max_row_tokens of "
                f"{type(environment).__name__} is {environment.max_row_tokens}: raise it, or leave the problem out"
            )
        turns = 1 if environment.refusal(problem) else environment.max_turns
        conversations += [Conversation(problem, group, i, prompt, turns) for i in range(sampling.num_samples)]
    with engine.session(policy, sampling) as session:
        checked = CheckedSession(session, policy.codec.eos_ids)
        loop = _Loop(policy, checked, Judge(runner), sampling, key, environment, conversations, progress)
        loop.run(in_rounds=engine.in_rounds)
    return PendingRollout(conversations, environment.max_turns, policy.codec.pad_id, policy.device)


class _Loop:
    """Keeps an engine busy until every row has ended."""

    def __init__(
        self,
        policy: Policy,
        session: Session,
        judge: Judge,
        sampling: Sampling,
        key: StreamKey,
        environment: Environment,
        conversations: Sequence[Conversation],
        progress: Progress,
    ) -> None:
        self.codec = policy.codec
        self.session = session
        self.judge = judge
        self.sampling = sampling
        self.key = key
        self.environment = environment
        self.conversations = conversations
        self.unanswered: list[int] = []
        self.progress = progress

    def run(self, in_rounds: bool) -> None:
        """Sample, judge and answer until nothing is left to say.

        Args:
            in_rounds: answer only when every row has finished its turn, all in order. Which rows enter the engine
                together then does not depend on timing, so a resumed run samples the same.
        """
        self.progress.open_rows = len(self.conversations)
        self.progress.rows += len(self.conversations)
        self.submit(range(len(self.conversations)))
        while self.session.num_unfinished or self.unanswered:
            for generation in self.session.step() if self.session.num_unfinished else ():
                self.hear(generation)
            self.progress.steps += 1
            self.progress.open_rows = self.session.num_unfinished + len(self.unanswered)
            if self.session.num_unfinished and in_rounds:
                continue
            if not self.session.num_unfinished:
                self.wait_for_verdicts(every_row=in_rounds)
            ready = {row for row in self.unanswered if self.conversations[row].is_answerable}
            self.unanswered = [row for row in self.unanswered if row not in ready]
            self.submit([row for row in sorted(ready) if self.answer(self.conversations[row])])

    def submit(self, rows: Sequence[int]) -> None:
        """Ask for the next turn of some rows."""
        self.progress.enter("sampling")
        lengths = [self.conversations[row].num_tokens for row in rows]
        longest = max(lengths, default=0)
        # Some families count left pads as positions: a short row then has no more room than the longest one.
        pads = [longest - length if self.codec.counts_pads else 0 for length in lengths]
        self.session.submit([self.request(row, more) for row, more in zip(rows, pads, strict=True)])

    def request(self, row: int, pads: int) -> Request:
        """The request for the next turn of a row with this many left pads."""
        conversation = self.conversations[row]
        stream = self.key.seed_of(conversation.problem.task_id, conversation.sample, len(conversation.turns))
        return Request(
            row=row,
            prompt_ids=(*conversation.prompt_ids, *conversation.ids),
            stream=stream,
            max_tokens=max(1, self.room(conversation, pads=pads)),
            stop_strings=conversation.problem.stop_strings,
        )

    def room(self, conversation: Conversation, more: int = 0, pads: int = 0) -> int:
        """Tokens that the next turn may take after this many more; below 1 if there is no room for a turn."""
        length = conversation.num_tokens + more
        left = self.codec.max_positions - pads - length
        if self.environment.max_row_tokens is not None:
            left = min(left, self.environment.max_row_tokens - length)
        return min(self.sampling.max_tokens, left)

    def hear(self, generation: Generation) -> None:
        """Append a finished turn to its row and start its program."""
        conversation = self.conversations[generation.row]
        problem = conversation.problem
        text, token_bytes = self.codec.decode(generation.ids, generation.reason, problem.stop_strings)
        start = len(conversation.ids)
        turn = Turn(start, start + len(generation.ids), text, token_bytes, generation.reason)
        conversation.add_turn(generation.ids, generation.logprobs, turn, generation.weights_version)
        program = find_program(problem, text)
        conversation.programs.append(program)
        conversation.outcomes.append(self.judge.start(problem, program, problem.check))
        self.progress.add_turn(len(generation.ids), conversation.outcomes[-1])
        goes_on = len(conversation.turns) < conversation.max_turns
        public = check_before_answer(self.environment, problem) if goes_on else None
        conversation.shown.append(None if public is None else self.judge.start(problem, program, public))
        if goes_on:
            self.unanswered.append(generation.row)

    def wait_for_verdicts(self, every_row: bool) -> None:
        """Wait until the environment can answer some row, or every one."""
        shown = [self.conversations[row].shown[-1] for row in self.unanswered]
        running = [outcome for outcome in shown if outcome is not None and not outcome.done()]
        if running and (every_row or len(running) == len(shown)):
            self.progress.enter("judging")
            wait(running, return_when=ALL_COMPLETED if every_row else FIRST_COMPLETED)

    def answer(self, conversation: Conversation) -> bool:
        """Append the environment's next message; False if it has none, or if no turn would fit after it."""
        message = ask(self.environment, conversation.problem, conversation.attempts())
        if not message:
            return False
        message = self.shorten(message)
        last = conversation.turns[-1]
        ids = self.codec.extend(
            conversation.problem, tuple(conversation.ids[last.start : last.end]), last.stop_reason, message
        )
        if self.room(conversation, len(ids)) < 1:
            return False
        conversation.add_message(ids)
        return True

    def shorten(self, message: str) -> str:
        """A message within the environment's limit."""
        limit = self.environment.max_message_tokens
        try:
            return message if limit is None else self.codec.shorten(message, limit)
        except ValueError as error:
            raise UsageError(f"max_message_tokens of {type(self.environment).__name__}: {error}") from error
