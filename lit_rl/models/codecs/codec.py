"""Codecs turn problems and messages into token ids, and token ids back into text.

A codec sees no weights. That of a causal language model is built around its tokenizer
(:mod:`lit_rl.models.codecs.text_codec`), that of a toy policy on plain numbers (:mod:`lit_rl.data.toys.toy_models`).

Letters: B prompts, N rows, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from lit_rl.errors import ArgumentError
from lit_rl.models.padding import pad_left, pad_right
from lit_rl.types import ByteSpan, Completions, Generation, Problem, StopReason

Spans = Sequence[ByteSpan]
"""The ``(start, end)`` bytes that each token wrote, in the UTF-8 of the text."""


class Codec(ABC):
    """Converter of problems and messages to ids, of ids to text and byte spans, and of rows to padded tensors.

    Args:
        eos_ids: every id that ends a completion.
        pad_id: id that fills the columns that a row does not use.
        max_positions: prompt and completion tokens that the policy can hold together.
    """

    num_ids: int | None = None
    """Ids that the policy knows, from 0 on; ``None`` if unknown."""

    def __init__(self, eos_ids: frozenset[int], pad_id: int, max_positions: int = 1 << 30) -> None:
        self.eos_ids = eos_ids
        self.pad_id = pad_id
        self.max_positions = max_positions

    @abstractmethod
    def encode_problem(self, problem: Problem) -> tuple[int, ...]:
        """Return the ids of a problem's prompt."""

    def escape_special_tokens(self, text: str) -> str:
        """Mark special tokens in text that others wrote, so that a text prompt encodes them as plain text.

        A program's output may spell out special tokens. Messages of a chat and of the environment need no mark.
        """
        return text

    @abstractmethod
    def encode_completion(self, text: str, *, is_finished: bool = True) -> tuple[tuple[int, ...], StopReason]:
        """Return a given completion's ids and stop reason; a finished one ends as the policy would end it."""

    @abstractmethod
    def decode(self, ids: Sequence[int], reason: StopReason, stop_strings: Sequence[str]) -> tuple[str, Spans]:
        """Return the text that the policy wrote and the byte span of each token.

        Args:
            ids: sampled ids, EOS included.
            reason: why the ids end; only a text ended by a stop string is cut.
            stop_strings: stop strings of the problem.

        Returns:
            The text without EOS, cut before the first stop string, and one span per id; ids beyond the text have an
            empty span at the end of the text.
        """

    @abstractmethod
    def encode_message(self, problem: Problem, ids: Sequence[int], reason: StopReason, message: str) -> tuple[int, ...]:
        """Return ids that append a message after the policy's turn and open the policy's next turn.

        Earlier ids stay as they were sampled. The returned ids go right after them.

        Args:
            problem: what the conversation began with.
            ids: ids of the policy's turn.
            reason: why the turn ended.
            message: what the environment says, verbatim.
        """

    @abstractmethod
    def truncate_middle(self, text: str, max_tokens: int) -> str:
        """Return the text, or its beginning and end with a note between them, in at most ``max_tokens`` tokens."""

    def contains_stop(self, ids: Sequence[int], stop_strings: Sequence[str]) -> bool:
        """Return whether the policy's text holds a stop string; called after each token, so only the end matters."""
        return False

    def prompt_opens_thought(self, prompt_ids: Sequence[int]) -> bool:
        """Return whether the ids before a turn open a thought, so that the turn begins inside that thought."""
        return False

    def max_completion_tokens(self, prompt_tokens: int) -> int:
        """Return how many tokens a completion may have after a prompt; at least 1."""
        return max(1, self.max_positions - prompt_tokens)

    def has_room_for_completion(self, problem: Problem) -> bool:
        """Return whether the prompt leaves at least one position to write in."""
        return len(self.encode_problem(problem)) < self.max_positions

    def encode_fitting_prompt(self, problem: Problem) -> tuple[int, ...]:
        """Return the ids of a problem's prompt; raise if they leave no room for a completion."""
        ids = self.encode_problem(problem)
        if len(ids) >= self.max_positions:
            raise ArgumentError(
                f"the prompt of problem {problem.task_id}",
                f"fewer than the {self.max_positions} tokens that the model can hold",
                str(len(ids)),
                "shorten the prompt, or leave the problem out",
            )
        return ids

    def completions_from_generations(
        self,
        of_groups: Sequence[Problem],
        rows: Sequence[Generation],
        group_size: int,
        device: torch.device | str = "cpu",
    ) -> Completions:
        """Return padded tensors and texts of the N rows of one turn that answer B problems, prompt-major."""
        prompts = [self.encode_fitting_prompt(problem) for problem in of_groups]
        prompt_ids, prompt_mask = pad_left(prompts, self.pad_id, device)
        problems = tuple(problem for problem in of_groups for _ in range(group_size))
        ids = pad_right([row.ids for row in rows], self.pad_id, torch.long)
        lengths = torch.tensor([len(row.ids) for row in rows], dtype=torch.long)
        decoded = [
            self.decode(row.ids, row.reason, problem.stop_strings) for row, problem in zip(rows, problems, strict=True)
        ]
        return Completions.single_turn(
            problems=problems,
            prompt_ids=prompt_ids.repeat_interleave(group_size, 0),
            prompt_mask=prompt_mask.repeat_interleave(group_size, 0),
            completion_ids=ids.to(device),
            completion_mask=(torch.arange(ids.shape[1]) < lengths[:, None]).to(device),
            sampler_logprobs=pad_right([row.logprobs for row in rows], 0.0, torch.float32).to(device),
            stop_reasons=tuple(row.reason for row in rows),
            texts=tuple(text for text, _ in decoded),
            token_byte_spans=tuple(spans for _, spans in decoded),
            group_size=group_size,
        )

    def completions_from_texts(
        self,
        problems: Sequence[Problem],
        texts: Sequence[str],
        device: torch.device | str = "cpu",
        *,
        finished: Sequence[bool] | None = None,
    ) -> Completions:
        """Return given texts, demonstrations or preference pairs, as if the policy had written them.

        Args:
            problems: N problems.
            texts: N texts.
            device: device of the tensors.
            finished: N flags, False for texts that a token limit cut; by default the policy ended all of them.

        Returns:
            N completions; the sampler's log-probabilities are 0.
        """
        rows: list[Generation] = []
        ended = [True] * len(texts) if finished is None else finished
        for problem, text, is_finished in zip(problems, texts, ended, strict=True):
            limit = self.max_completion_tokens(len(self.encode_fitting_prompt(problem)))
            ids, reason = self.encode_completion(text, is_finished=is_finished)
            reason = reason if len(ids) <= limit else StopReason.LENGTH
            rows.append(Generation(len(rows), ids[:limit], (0.0,) * len(ids[:limit]), reason, 0))
        return self.completions_from_generations(problems, rows, 1, device)
