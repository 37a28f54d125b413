"""The reward of a run: a weighted sum of terms, with its credit per token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, SupportsFloat

import torch
from torch import Tensor

from lit_rl.errors import UsageError, short_repr
from lit_rl.rewards.term import RewardOutput, RewardTerm, Span, TermScore
from lit_rl.rewards.token_credit import CreditSpreader, utf8_bytes
from lit_rl.signature_check import ArgumentChecks, ValueLimit
from lit_rl.types import Completions, Judgement, Problem, Turn

RewardTerms = Annotated[list[RewardTerm], ValueLimit("at least one reward term, such as TestsReward", len)]


class Composite(ArgumentChecks):
    """Weighted sum of reward terms.

    Credit follows the terms: each puts ``weight * value`` on tokens, see :mod:`lit_rl.rewards.token_credit`;
    a row's credit sums to its reward.

    A row in which a term with a weight has no value is invalid: its reward and credit are 0, and it must
    leave baseline and loss. Terms of weight 0 are only scored and logged.

    Args:
        terms: the terms, each with its weight.
    """

    def __init__(self, terms: RewardTerms) -> None:
        names = [term.name for term in terms]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise UsageError(f"Composite.terms[{index}].name is {name!r} a second time: rename one term")
        self.terms = list(terms)

    @property
    def needs_every_case(self) -> bool:
        """True if a term reads cases of a program beyond the first that fails."""
        return any(term.needs_every_case for term in self.terms)

    def setup(self) -> None:
        for term in self.terms:
            term.setup()

    def check_problem(self, problem: Problem) -> None:
        for index, term in enumerate(self.terms):
            try:
                term.check_problem(problem)
            except ValueError as error:
                key = f"Composite.terms[{index}] ({type(term).__name__})"
                what = f"{key} cannot score problem {problem.task_id}: {error}"
                raise UsageError(f"{what}; take the term out, or give another task") from error

    def __call__(self, completions: Completions, judgements: Sequence[Judgement]) -> RewardOutput:
        """Compute rewards and credit of N completions, from their judgements in the same order."""
        scores = [_checked_scores(term, completions, judgements) for term in self.terms]
        rewards, reasons, weighted = list[float](), dict[int, str](), list[WeightedScores]()
        for i in range(len(completions)):
            counted = [(t, of_term[i]) for t, of_term in zip(self.terms, scores, strict=True) if t.weight]
            lost = [f"{term.name}: {score.reason or 'no value'}" for term, score in counted if score.value is None]
            if lost:
                reasons[i], counted = lost[0], []
            weighted.append([(term.weight, score) for term, score in counted])
            # Summed from the values, never from the parts: equal values must give equal rewards to the last bit, since
            # groups of equal rewards are recognised by equality.
            rewards.append(math.fsum([weight * (score.value or 0.0) for weight, score in weighted[i]]))
        device, mask = completions.completion_mask.device, completions.on_host.completion_mask
        valid = [i not in reasons for i in range(len(rewards))]
        term_values = {}
        for term, of_term in zip(self.terms, scores, strict=True):
            values = [math.nan if score.value is None else score.value for score in of_term]
            term_values[term.name] = torch.tensor(values, dtype=torch.float32, device=device)
        return RewardOutput(
            rewards=torch.tensor(rewards, dtype=torch.float32, device=device),
            valid=torch.tensor(valid, dtype=torch.bool, device=device),
            term_values=term_values,
            reasons=reasons,
            put_on_tokens=partial(_put_scores_on_tokens, completions.turns, mask, judgements, weighted),
        )


WeightedScores = list[tuple[float, TermScore]]
"""Weight and score of each term, for one row."""


def _put_scores_on_tokens(
    turns: Sequence[Sequence[Turn]],
    mask: Tensor,
    judgements: Sequence[Judgement],
    weighted: Sequence[WeightedScores],
) -> tuple[Tensor, Tensor]:
    """Return the credit of the tokens of N rows, and the reward that each token decided, [N, T]."""
    credit, decided = torch.zeros(2, *mask.shape, dtype=torch.float32)
    for i, (of_row, judgement) in enumerate(zip(turns, judgements, strict=True)):
        columns = [(turn.start, turn.end) for turn in of_row]
        last = of_row[-1]
        places = CreditSpreader(last.token_byte_spans, mask[i], judgement.program, last.start, columns)
        credit[i], decided[i] = places.spread_scores(weighted[i])
    return credit, decided


def _checked_scores(term: RewardTerm, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
    name = type(term).__name__
    scores = term.score(completions, judgements)
    if len(scores) != len(completions):
        raise UsageError(
            f"{name} gave {len(scores)} scores for {len(completions)} completions: return one TermScore for each"
        )
    for i, score in enumerate(scores):
        if fault := _score_fault(score, completions.turns[i]):
            raise UsageError(f"{name}, row {i}: got {fault}")
    return list(scores)


def _score_fault(score: Any, turns: Sequence[Turn]) -> str:
    """Return what cannot be used in a row's score, and what to do; empty if there is no such fault."""
    if not isinstance(score, TermScore):
        return f"{score!r:.80}: return TermScore(value)"
    if len(score.turn_values) > len(turns):
        return f"{len(score.turn_values)} turn_values for {len(turns)} turns: give at most one per turn"
    size = len(utf8_bytes(turns[-1].text)) or 1  # a span may be about EOS if there is nothing else
    for span in score.spans:
        if not isinstance(span, Span) or not 0 <= span.start <= span.end <= size:
            return f"{short_repr(span)}, and its last turn has {size} bytes of UTF-8: give a Span inside that turn"
    numbers = [*(span.value for span in score.spans), *score.turn_values]
    numbers += [] if score.value is None else [score.value]
    for number in numbers:
        if not isinstance(number, SupportsFloat):
            return f"{number!r:.80}: give a number"
    if not all(map(math.isfinite, numbers)):
        return f"a value that is not finite: {score}; use TermScore(None, reason=...) where the term has no value"
    return ""
