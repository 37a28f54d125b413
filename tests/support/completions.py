"""Hand-made completions as the sampler would hand them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from lit_rl.execution.checks import AssertTests, Check
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import Composite, RewardOutput, RewardTerm, Span, TermScore
from lit_rl.rollout import find_program
from lit_rl.types import Completions, Judgement, Problem, Program, StopReason

PASSED = Outcome(Verdict.PASSED, cases=(Verdict.PASSED,))


class FixedScores(RewardTerm):
    """Gives the scores it was built with."""

    default_name = "fixed"

    def __init__(self, scores: list[TermScore], weight: float = 1.0, name: str | None = None) -> None:
        super().__init__(weight, name)
        self.scores = scores

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return self.scores


def letters(text: str) -> tuple[tuple[int, int], ...]:
    """A token a letter, so that expected places can be counted by eye; then EOS."""
    spans, end = [], 0
    for sign in text:
        spans.append((end, end + len(sign.encode())))
        end = spans[-1][1]
    return (*spans, (end, end))


def with_stop_reasons(completions: Completions, *reasons: StopReason) -> Completions:
    """The same rows with other reasons why their last turns ended."""
    pairs = zip(completions.turns, reasons, strict=True)
    return replace(completions, turns=tuple((*said[:-1], replace(said[-1], stop_reason=why)) for said, why in pairs))


def problem(check: Check | None = None, **more: Any) -> Problem:
    return Problem("p/0", "Write it.", check or AssertTests("assert True"), **more)


def judged(
    text: str, outcome: Outcome = PASSED, problem: Problem | None = None, program: Program | None = None
) -> Judgement:
    task = problem or Problem("p/0", "Write it.", AssertTests("assert True"))
    return Judgement(task, program or find_program(task, text), outcome)


def batch(texts: list[str], spans: list[tuple[tuple[int, int], ...]] | None = None) -> Completions:
    """Completions of these texts, each ended by EOS; a token a letter unless places are given."""
    places = spans or [letters(text) for text in texts]
    width = max(len(row) for row in places)
    mask = torch.tensor([[t < len(row) for t in range(width)] for row in places])
    prompt = torch.zeros(len(texts), 1, dtype=torch.long)
    return Completions.single_turn(
        problems=tuple(problem() for _ in texts),
        prompt_ids=prompt,
        prompt_mask=prompt == 0,
        completion_ids=torch.zeros(len(texts), width, dtype=torch.long),
        completion_mask=mask,
        sampler_logprobs=torch.zeros(len(texts), width),
        stop_reasons=(StopReason.EOS,) * len(texts),
        texts=tuple(texts),
        token_byte_spans=tuple(places),
    )


def inside(spans: Sequence[Span], text: str) -> tuple[Span, ...]:
    """Spans moved into a text; an empty one has room for one, its end."""
    size = len(text.encode()) or 1
    both = [(one, sorted((min(one.start, size), min(one.end, size)))) for one in spans]
    return tuple(replace(one, start=start, end=end) for one, (start, end) in both)


def reward_of(term: RewardTerm, text: str, outcome: Outcome = PASSED, **task: Any) -> RewardOutput:
    """One completion's reward by one term, a token a letter."""
    return Composite([term])(batch([text]), [judged(text, outcome, problem(**task))])
