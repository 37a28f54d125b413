"""Supervised fine-tuning on demonstrations: the warm start, and the baseline to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.math.masking import aggregate, loss_denominator
from lit_rl.modules.text_module import Metrics, TextModule
from lit_rl.rollout import reference_answer, restore_conversations
from lit_rl.rollout.sampling_loop import PendingRollout
from lit_rl.types import Completions, Problem, StopReason


class SFT(TextModule):
    """Imitation of demonstrations: cross-entropy of completion tokens and EOS, mean over the tokens of the update.

    A problem's demonstration is ``fields["demonstration"]`` where the task gives one, else its reference; rows of
    :class:`lit_rl.data.CompletionFile` keep their sampled token ids. Prompt tokens have no loss.
    Adapters and a 4-bit base are arguments of :class:`lit_rl.models.CausalLM`.

    The arguments are those of :class:`TextModule`.
    """

    metric_prefix = "sft"
    lacks = "has neither a demonstration nor a reference: SFT needs one of the two"
    nothing_left = "rows whose last turn begins beyond the context"

    def texts_to_learn(self, problem: Problem) -> tuple[str, ...]:
        known = problem.reference is not None or "demonstration" in problem.fields
        return (completion_to_imitate(problem),) if known else ()

    def are_texts_finished(self, problem: Problem) -> tuple[bool, ...]:
        row = problem.fields.get("row")
        ends = row is None or row.turns[-1].stop_reason != StopReason.LENGTH
        return (ends,) * len(self.texts_to_learn(problem))

    def encode_texts_if_long(self, problem: Problem, room: int) -> list[tuple[int, ...]]:
        row = problem.fields.get("row")
        if row is None or tuple(row.prompt_ids) != tuple(self.policy.codec.encode_problem(problem)):
            return super().encode_texts_if_long(problem, room)
        return [tuple(row.tokens["ids"])]

    def has_target_tokens(self, problem: Problem, ids: Sequence[tuple[int, ...]]) -> bool:
        return len(ids[0]) > int(problem.fields.get("learned_from", 0))

    def completions_and_group_size(self, problems: Sequence[Problem]) -> tuple[Completions, int]:
        """Return the problems' texts as completions; sampled texts keep their ids if the policy has their tokenizer."""
        codec, rows = self.policy.codec, [problem.fields["row"] for problem in problems if "row" in problem.fields]
        conversations = None
        if len(rows) == len(problems):
            stored = [row.to_stored_row(0) | {"task_id": one.task_id} for row, one in zip(rows, problems, strict=True)]
            conversations = restore_conversations(stored, problems, 1, codec)
        if conversations is None:
            if any(len(row.turns) > 1 for row in rows):
                raise UsageError(
                    "multi-turn completions need the tokenizer and chat template of the policy that sampled them, and "
                    "batches without other demonstrations: train that policy, or sample with one turn"
                )
            return super().completions_and_group_size(problems)
        completions = PendingRollout(conversations, 1, codec.pad_id, self.policy.device).completions()
        columns = torch.arange(completions.completion_ids.shape[1], device=self.policy.device)
        first = torch.tensor([problem.fields["learned_from"] for problem in problems], device=self.policy.device)
        fits = columns < codec.max_positions - completions.prompt_mask.sum(-1, keepdim=True)
        learned = completions.completion_mask & (columns >= first[:, None]) & fits
        return replace(completions, completion_mask=learned, token_mask=completions.token_mask & fits), 1

    def denominator_part(self, completions: Completions) -> Tensor:
        return loss_denominator(completions.completion_mask, "token_mean")

    def loss_and_metrics(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        logprobs = self.policy.logprobs(completions)
        mask = completions.completion_mask
        return aggregate(-logprobs, mask, mode="token_mean", denominator=denominator), {}


def completion_to_imitate(problem: Problem) -> str:
    """Return the completion to imitate: the task's demonstration, or the reference in the form the prompt asks for."""
    if "demonstration" in problem.fields:
        return str(problem.fields["demonstration"])
    assert problem.reference is not None
    if problem.continues_program and problem.reference.strip("\n")[:1] in (" ", "\t"):
        raise UsageError(
            f"the reference of problem {problem.task_id} is an indented function body: give the whole program, "
            "which begins with program_prefix"
        )
    return reference_answer(problem)
