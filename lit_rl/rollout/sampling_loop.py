"""The event loop of a rollout: engine step, decode, judge, environment, next request.

A program starts to run as soon as its turn is finished, while other rows are still being sampled, so execution
overlaps with sampling and training stays on-policy. The loop ends with a pending rollout: all its rows are
sampled, but some programs may still run. It can be stored and continued.

Letters: B problems, G samples of each, N = B * G rows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

import torch

from lit_rl.engines.engine import Engine, Session
from lit_rl.errors import UsageError
from lit_rl.execution.interface import Outcome, ProgramRunner
from lit_rl.models.codecs.codec import Codec
from lit_rl.models.padding import pad_left, pad_right
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout.environment import Attempt, Environment, SingleTurn, feedback_check
from lit_rl.rollout.records import Judge, Rollout, find_program
from lit_rl.training.progress import RolloutProgress
from lit_rl.types import Completions, Generation, Judgement, Problem, Program, Request, Sampling, StopReason, Turn


@dataclass(eq=False)
class Conversation:
    """A row of the rollout, while it is being written."""

    problem: Problem
    group: int
    sample: int
    prompt_ids: tuple[int, ...]
    max_turns: int = 1
    ids: array[int] = field(default_factory=lambda: array("q"))
    chosen: bytearray = field(default_factory=bytearray)  # 1 for what the policy chose
    logprobs: array[float] = field(default_factory=lambda: array("d"))
    turns: list[Turn] = field(default_factory=list)
    programs: list[Program | None] = field(default_factory=list)
    outcomes: list[Future[Outcome]] = field(default_factory=list)
    shown: list[Future[Outcome] | None] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def add_observation_ids(self, ids: Sequence[int]) -> None:
        """Append a message of the environment, which has no log-probabilities, since the policy did not sample it."""
        self.ids += array("q", ids)
        self.chosen.extend(b"\0" * len(ids))
        self.logprobs += array("d", [0.0]) * len(ids)

    @property
    def has_known_outcomes(self) -> bool:
        """True if every outcome that the environment may use is known."""
        return all(outcome is None or outcome.done() for outcome in self.shown)

    def attempts(self) -> list[Attempt]:
        """Return all turns so far, as the environment sees them."""
        return [
            Attempt(turn.text, turn.stop_reason, program, None if shown is None else shown.result())
            for turn, program, shown in zip(self.turns, self.programs, self.shown, strict=True)
        ]


StoredRow = Mapping[str, Any]
"""Sampled data of a row, as plain data, without verdicts: resuming runs its programs again."""


@dataclass(eq=False)
class PendingRollout:
    """N rows to which the policy adds nothing more; :meth:`finish` waits for their verdicts."""

    conversations: Sequence[Conversation]
    max_turns: int
    pad_id: int
    device: torch.device

    def finish(self, progress: RolloutProgress | None = None) -> Rollout:
        """Wait for the verdicts; return N rows and their judgements, in the same order."""
        if progress is not None:
            progress.enter_phase("judging")
        judgements = []
        for row in self.conversations:
            judged = zip(row.programs, row.outcomes, strict=True)
            judgements.append(tuple(Judgement(row.problem, program, outcome.result()) for program, outcome in judged))
        last = tuple(of_row[-1] for of_row in judgements)
        return Rollout(self.completions(), last, tuple(judgements), self.max_turns)

    def completions(self) -> Completions:
        """Return the N rows as tensors: prompts padded on the left, completions on the right."""
        rows, pad_id, device = self.conversations, self.pad_id, self.device
        prompt_ids, prompt_mask = pad_left([row.prompt_ids for row in rows], pad_id, device)
        lengths = torch.tensor([len(row.ids) for row in rows], dtype=torch.long)
        ids = pad_right([row.ids for row in rows], pad_id, torch.long)
        return Completions(
            problems=tuple(row.problem for row in rows),
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            completion_ids=ids.to(device),
            completion_mask=pad_right([row.chosen for row in rows], False, torch.bool).to(device),
            token_mask=(torch.arange(ids.shape[1]) < lengths[:, None]).to(device),
            sampler_logprobs=pad_right([row.logprobs for row in rows], 0.0, torch.float32).to(device),
            turns=tuple(tuple(row.turns) for row in rows),
            group_ids=torch.tensor([row.group for row in rows], dtype=torch.long, device=device),
            weights_versions=tuple(min(row.versions) for row in rows),
        )

    @property
    def task_ids(self) -> list[str]:
        """Distinct task ids of the rows, in the order in which they first appear."""
        return list(dict.fromkeys(conversation.problem.task_id for conversation in self.conversations))

    def rows_to_store(self) -> list[StoredRow]:
        """Return N rows to store."""
        return [
            {
                "task_id": row.problem.task_id,
                "sample": row.sample,
                "prompt_ids": list(row.prompt_ids),
                "ids": torch.tensor(row.ids.tolist()),
                "chosen": list(row.chosen),
                "logprobs": torch.tensor(row.logprobs.tolist(), dtype=torch.float64),
                "turns": [(turn.start, turn.end, str(turn.stop_reason)) for turn in row.turns],
                "versions": list(row.versions),
            }
            for row in self.conversations
        ]

    def start_missing_programs(self, runner: ProgramRunner | None, every_case: bool) -> None:
        """Start the programs of rows without verdicts: those that were stored, or whose sandbox has ended."""
        judge = Judge(runner, every_case)
        for row in self.conversations:
            if not row.outcomes:
                row.programs = [find_program(row.problem, turn.text, turn.in_thought) for turn in row.turns]
                row.outcomes = [
                    judge.start_program(row.problem, program, row.problem.check) for program in row.programs
                ]


def restore_conversations(
    rows: Sequence[StoredRow], problems: Sequence[Problem], num_samples: int, codec: Codec
) -> list[Conversation] | None:
    """Restore rows, in any order, of some problems, prompt-major; ``None`` if some are missing or differ in prompt."""
    found = {(row["task_id"], row["sample"]): row for row in rows}
    conversations = []
    for group, problem in enumerate(problems):
        prompt_ids = codec.encode_problem(problem)
        for sample in range(num_samples):
            row = found.get((problem.task_id, sample))
            if row is None or tuple(row["prompt_ids"]) != tuple(prompt_ids):
                return None
            turns = row["turns"]
            one = Conversation(problem, group, sample, tuple(prompt_ids), len(turns))
            one.ids = array("q", torch.as_tensor(row["ids"]).tolist())
            one.chosen = bytearray(row["chosen"])
            one.logprobs = array("d", torch.as_tensor(row["logprobs"], dtype=torch.float64).tolist())
            one.versions = list(row["versions"])
            one.turns = [
                _build_turn(one, start, one.ids[start:end], StopReason(name), codec) for start, end, name in turns
            ]
            one.shown = [None] * len(turns)
            conversations.append(one)
    return conversations


def _build_turn(row: Conversation, start: int, ids: Sequence[int], reason: StopReason, codec: Codec) -> Turn:
    text, token_bytes = codec.decode(tuple(ids), reason, row.problem.stop_strings)
    in_thought = codec.prompt_opens_thought((*row.prompt_ids, *row.ids[:start]))
    return Turn(start, start + len(ids), text, token_bytes, reason, in_thought)


def sample_rows(
    policy: Policy,
    engine: Engine,
    runner: ProgramRunner | None,
    problems: Sequence[Problem],
    sampling: Sampling,
    key: RandomKey,
    environment: Environment | None = None,
    progress: RolloutProgress | None = None,
    every_case: bool = True,
) -> PendingRollout:
    """Sample rows for the problems and start their programs; ``.finish()`` of the result waits for the verdicts.

    Returns N = B * ``sampling.num_samples`` rows, prompt-major; B may be 0 (a rank whose share has run out). Without a
    runner, no program runs; by default each row is one turn. ``every_case``: see :class:`Judge`.
    """
    environment = SingleTurn() if environment is None else environment
    progress = RolloutProgress() if progress is None else progress
    conversations = []
    for group, problem in enumerate(problems):
        prompt = policy.codec.encode_fitting_prompt(problem)
        if environment.max_row_tokens is not None and len(prompt) >= environment.max_row_tokens:
            raise UsageError(
                f"the prompt of problem {problem.task_id} has {len(prompt)} tokens, but max_row_tokens of "
                f"{type(environment).__name__} is {environment.max_row_tokens}: raise this limit, or omit the problem"
            )
        turns = environment.max_turns
        if turns > 1 and environment.reason_unplayable(problem):
            turns = 1
        conversations += [Conversation(problem, group, i, prompt, turns) for i in range(sampling.num_samples)]
    with engine.session(policy, sampling) as session:
        judge = Judge(runner, every_case)
        loop = _SamplingLoop(policy.codec, session, judge, sampling, key, environment, conversations, progress)
        loop.run(in_rounds=engine.in_rounds)
    return PendingRollout(conversations, environment.max_turns, policy.codec.pad_id, policy.device)


_ROUNDING = 1e-3
"""In half precision, log-probabilities of tokens that are certain come out above 0 by at most this much."""


def _check_generation(answer: Generation, request: Request | None, codec: Codec, name: str) -> None:
    """Raise if an engine's answer is not what was asked for: ``request`` is the open request of its row, if any."""
    ids, eos_ids = answer.ids, codec.eos_ids
    if request is None:
        fault = "which is not being asked for: answer each request once, with its own row"
    elif not 1 <= len(ids) <= request.max_tokens:
        fault = f"with {len(ids)} ids, but 1 to {request.max_tokens} were asked for"
    elif len(answer.logprobs) != len(ids):
        fault = f"with {len(answer.logprobs)} log-probabilities for {len(ids)} ids: give one for each, EOS included"
    elif odd := {type(one) for one in (*ids, *answer.logprobs) if not isinstance(one, int | float)}:
        fault = f"with numbers of type {odd.pop().__name__}: give plain int and float, as .tolist() does"
    elif not all(-math.inf < one <= _ROUNDING for one in answer.logprobs):
        fault = "with a log-probability that is no number of at most 0"
    elif min(ids) < 0 or (codec.num_ids is not None and max(ids) >= codec.num_ids):
        fault = f"with an id outside the policy's vocabulary of {codec.num_ids}"
    elif answer.reason is StopReason.EOS and eos_ids and ids[-1] not in eos_ids:
        fault = f"with the reason eos, but its last id is {ids[-1]}: keep the id of EOS, one of {sorted(eos_ids)}"
    elif not eos_ids.isdisjoint(ids[:-1]):
        fault = f"with ids after EOS: end a completion at each of {sorted(eos_ids)}"
    else:
        return
    raise UsageError(f"{name}.step answered row {answer.row}, {fault}")


@dataclass(eq=False)
class _SamplingLoop:
    """Keeps an engine busy until every row has ended."""

    codec: Codec
    session: Session
    judge: Judge
    sampling: Sampling
    key: RandomKey
    environment: Environment
    conversations: Sequence[Conversation]
    progress: RolloutProgress
    open: dict[int, Request] = field(default_factory=dict)
    unanswered: list[int] = field(default_factory=list)

    def run(self, in_rounds: bool) -> None:
        """Sample, judge and answer until nothing is left to say.

        Args:
            in_rounds: answer only when every row has finished its turn, all rows in order. Then timing does not affect
                which rows enter the engine together, so a resumed run samples the same tokens.
        """
        self.progress.open_rows = len(self.conversations)
        self.progress.rows += len(self.conversations)
        self.submit_requests(range(len(self.conversations)))
        while self.open or self.unanswered:
            for generation in self.session.step() if self.open else ():
                self.append_turn(generation)
            if self.session.num_unfinished != len(self.open):  # other callers wait for it
                raise UsageError(
                    f"{type(self.session).__name__}.num_unfinished is {self.session.num_unfinished}, but "
                    f"{len(self.open)} requests are not answered yet (rows {[*self.open][:5]}): answer "
                    "each request, and count those that wait"
                )
            self.progress.steps += 1
            self.progress.open_rows = len(self.open) + len(self.unanswered)
            if not self.unanswered or (self.open and in_rounds):
                continue
            shown = [self.conversations[row].shown[-1] for row in self.unanswered]
            running = [outcome for outcome in shown if outcome is not None and not outcome.done()]
            # Wait until the environment can answer some row or, in rounds, every row.
            if not self.open and running and (in_rounds or len(running) == len(shown)):
                self.progress.enter_phase("judging")
                wait(running, return_when=ALL_COMPLETED if in_rounds else FIRST_COMPLETED)
            ready = {row for row in self.unanswered if self.conversations[row].has_known_outcomes}
            self.unanswered = [row for row in self.unanswered if row not in ready]
            self.submit_requests([row for row in sorted(ready) if self.append_message(self.conversations[row])])

    def submit_requests(self, rows: Sequence[int]) -> None:
        self.progress.enter_phase("sampling")
        requests = {}
        for row in rows:
            conversation = self.conversations[row]
            requests[row] = Request(
                row=row,
                prompt_ids=(*conversation.prompt_ids, *conversation.ids),
                stream=self.key.seed_of_stream(
                    conversation.problem.task_id, conversation.sample, len(conversation.turns)
                ),
                max_tokens=max(1, self.tokens_left_for_turn(conversation)),
                stop_strings=conversation.problem.stop_strings,
            )
        if requests:
            self.session.submit(list(requests.values()))
            self.open |= requests

    def tokens_left_for_turn(self, conversation: Conversation, more: int = 0) -> int:
        """Return how many tokens the next turn may take after ``more`` further tokens; below 1 if there is no room."""
        length = len(conversation.prompt_ids) + len(conversation.ids) + more
        left = self.codec.max_positions - length
        if self.environment.max_row_tokens is not None:
            left = min(left, self.environment.max_row_tokens - length)
        return min(self.sampling.max_tokens, left)

    def append_turn(self, generation: Generation) -> None:
        _check_generation(generation, self.open.pop(generation.row, None), self.codec, type(self.session).__name__)
        conversation = self.conversations[generation.row]
        problem = conversation.problem
        turn = _build_turn(conversation, len(conversation.ids), generation.ids, generation.reason, self.codec)
        conversation.turns.append(turn)
        conversation.ids += array("q", generation.ids)
        conversation.chosen += b"\1" * len(generation.ids)
        conversation.logprobs += array("d", generation.logprobs)
        conversation.versions.append(generation.weights_version)
        program = find_program(problem, turn.text, turn.in_thought)
        conversation.programs.append(program)
        conversation.outcomes.append(self.judge.start_program(problem, program, problem.check))
        self.progress.add_turn(len(generation.ids), conversation.outcomes[-1])
        goes_on = len(conversation.turns) < conversation.max_turns
        public = feedback_check(self.environment, problem) if goes_on else None
        conversation.shown.append(None if public is None else self.judge.start_program(problem, program, public))
        if goes_on:
            self.unanswered.append(generation.row)

    def append_message(self, conversation: Conversation) -> bool:
        """Append the environment's next message; return False if there is none, or if no turn would fit after it."""
        message = self.environment.answer(conversation.problem, conversation.attempts())
        if not message:
            return False
        limit = self.environment.max_message_tokens
        message = message if limit is None else self.codec.truncate_middle(message, limit)
        last = conversation.turns[-1]
        ids = self.codec.encode_message(
            conversation.problem, tuple(conversation.ids[last.start : last.end]), last.stop_reason, message
        )
        if self.tokens_left_for_turn(conversation, len(ids)) < 1:
            return False
        conversation.add_observation_ids(ids)
        return True
