"""Hand-made rows of one to three turns, and modules that learn from them instead of sampling."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from lit_rl.execution import TokenTarget
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.models import CausalLM
from lit_rl.modules import PPO
from lit_rl.rewards.term import RewardOutput, RewardTerm, Span, TermScore
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Experience, Judgement, Problem, Sampling, StopReason, Turn

Said = Sequence[Sequence[int]]
"""Turns of a row: a turn, a message, a turn, and so on; ids of one byte each."""


def rows_of(prompts: Sequence[Sequence[int]], said: Sequence[Said], group_size: int = 1) -> Completions:
    """N rows with a letter as the text of each token; ids that are odd at the end of a row were cut there."""
    width, widest = max(sum(map(len, row)) for row in said), max(map(len, prompts))
    ids = torch.tensor([[i for part in row for i in part] + [257] * (width - sum(map(len, row))) for row in said])
    chosen = [[k % 2 == 0 for k, part in enumerate(row) for _ in part] for row in said]
    mask = torch.tensor([row + [False] * (width - len(row)) for row in chosen])
    lengths = torch.tensor([len(row) for row in chosen])
    return Completions(
        problems=tuple(Problem(f"p{i // group_size}", "", TokenTarget()) for i in range(len(said))),
        prompt_ids=torch.tensor([[257] * (widest - len(row)) + list(row) for row in prompts]),
        prompt_mask=torch.tensor([[t >= widest - len(row) for t in range(widest)] for row in prompts]),
        completion_ids=ids,
        completion_mask=mask,
        token_mask=torch.arange(width) < lengths[:, None],
        sampler_logprobs=torch.zeros(ids.shape),
        turns=tuple(_turns(row) for row in said),
        group_ids=torch.arange(len(said)) // group_size,
    )


def _turns(row: Said) -> tuple[Turn, ...]:
    turns, start = [], 0
    for k, part in enumerate(row):
        if k % 2 == 0:
            reason = StopReason.LENGTH if part[-1] % 2 else StopReason.EOS
            spans = tuple((t, t + 1) for t in range(len(part)))
            turns.append(Turn(start, start + len(part), "x" * len(part), spans, reason))
        start += len(part)
    return tuple(turns)


def drawn(name: str) -> Said:
    """A row of one to three turns, always the same for a name."""
    numbers = random.Random(name)
    lengths = [numbers.randint(1, 5) for _ in range(numbers.choice([1, 3, 3, 5]))]
    return [[numbers.randrange(256) for _ in range(length)] for length in lengths]


def cut_out(rows: Completions) -> list[list[int]]:
    """Columns of the tokens that the policy chose, of each row."""
    return [row.nonzero()[:, 0].tolist() for row in rows.completion_mask]


class LastTurn(RewardTerm):
    """Share of even ids in the last turn; a quarter of a point of it was lost by the turn's first token."""

    default_name = "last"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        scores = []
        for ids, turns in zip(completions.completion_ids.tolist(), completions.turns, strict=True):
            said = ids[turns[-1].start : turns[-1].end]
            share = sum(i % 2 == 0 for i in said) / len(said)
            scores.append(TermScore(share, (Span(0, 1, -0.25),)))
        return scores


class Plays:
    """Collects hand-made rows, the same for a problem wherever it is played; keeps the last experience."""

    seen: tuple[Experience, RewardOutput]

    sampling: Sampling

    def collect(self, problems: Sequence[Problem]) -> Rollout:
        group = self.sampling.num_samples
        names = [f"{problem.task_id}/{g}" for problem in problems for g in range(group)]
        prompts = [list(problem.prompt.encode()) for problem in problems for _ in range(group)]  # type: ignore[union-attr]
        rows = rows_of(prompts, [drawn(name) for name in names], group)
        rows = replace(rows, problems=tuple(problem for problem in problems for _ in range(group)))
        judged = [Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in rows.problems]
        of_turns = tuple((one,) * len(turns) for one, turns in zip(judged, rows.turns, strict=True))
        return Rollout(rows, tuple(judged), of_turns, max_turns=3)

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        experience: Experience = super().make_experience(rollout, rewards)  # type: ignore[misc]
        self.seen = experience, rewards
        return experience


class PlaysPPO(Plays, PPO):  # type: ignore[misc]
    """PPO on hand-made rows, with a critic that has an opinion: its head starts at zero otherwise."""

    alone: list[tuple[torch.Tensor, torch.Tensor]]
    """Values of the critic for each row by itself: values [1, T] and tail [1]."""

    def values_and_tail_values(self, completions: Completions) -> tuple[torch.Tensor, torch.Tensor]:
        self.alone = [self.critic(completions.select([row]).trim()) for row in range(len(completions))]
        return super().values_and_tail_values(completions)

    def configure_model(self) -> None:
        super().configure_model()
        generator = torch.Generator().manual_seed(1)
        weight: Any = self.critic.head.weight
        with torch.no_grad():
            weight.copy_(0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))


def apart(policy: CausalLM, rows: Completions) -> list[tuple[int, Turn, Completions]]:
    """Each turn as a row of its own, whose prompt is all that was said before it."""
    alone = []
    for row, turns in enumerate(rows.turns):
        prompt = rows.prompt_ids[row][rows.prompt_mask[row]].tolist()
        ids = rows.completion_ids[row].tolist()
        for turn in turns:
            alone.append((row, turn, rows_of([prompt + ids[: turn.start]], [[ids[turn.start : turn.end]]])))
    return alone
