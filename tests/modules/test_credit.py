"""Tokens that carry a completion's reward, and what each learns from it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from support.completions import FixedScores, batch, judged
from torch import Tensor

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.math.returns import reward_to_go
from lit_rl.rewards import ALL_TEXT, Composite, RewardOutput, Span, TermScore, TestsReward
from lit_rl.rewards.token_credit import Credit, assign_credit, credit_last_token


def scored(texts: list[str], scores: list[TermScore]) -> tuple[RewardOutput, Tensor]:
    """Rewards and mask of completions, a letter a token, then EOS."""
    completions = batch(texts)
    return Composite([FixedScores(scores)])(completions, [judged(t) for t in texts]), completions.completion_mask


def test_a_terminal_reward_stands_on_the_last_token_of_each_row() -> None:
    """Item 25: the row of three choices, which has a gap, has five tokens."""
    mask = torch.tensor([[True, False, False, True, True, False], [True, True, False, False, False, False]])
    placed = credit_last_token(torch.tensor([0.5, 2.0]), mask)
    assert placed.nonzero().tolist() == [[0, 4], [1, 1]] and placed.sum() == 2.5


def test_a_place_keeps_its_part_and_the_rest_stands_where_the_option_says() -> None:
    """A program of four letters that earned 0, of which the first two lost 1: that is decided by the third."""
    rewards, mask = scored(["abcd", "a"], [TermScore(0.0, (Span(0, 2, -1.0),)), TermScore(0.5)])
    assert assign_credit(rewards, mask, "spans").tolist() == [[0, 0, -1, 0, 1], [0, 0.5, 0, 0, 0]]
    assert assign_credit(rewards, mask, "tokens").tolist() == [[-0.25, -0.25, 0.25, 0.25, 0], [0.5, 0, 0, 0, 0]]
    assert assign_credit(rewards, mask, "terminal").tolist() == [[0, 0, 0, 0, 0], [0, 0.5, 0, 0, 0]]


def test_a_place_at_the_end_or_one_that_could_be_undone_is_decided_by_the_last_token() -> None:
    places = Span(3, 4, -1.0), Span(4, 4, -1.0), Span(0, 1, -1.0, ALL_TEXT), Span(0, 1, -1.0, until=4)
    for place in places:
        rewards, mask = scored(["abcd", "abcdefg"], [TermScore(-1.0, (place,)), TermScore(0.0)])
        assert assign_credit(rewards, mask, "spans")[0].tolist() == [0, 0, 0, 0, -1, 0, 0, 0]


RAISED = Verdict.EXCEPTION
# A program, how it ended, and what is written when its loss is decided; ``None`` for all of it, with EOS.
DECIDED: dict[str, tuple[str, Outcome, str | None]] = {
    "a bracket that is never closed": ("f(\nx", Outcome(Verdict.SYNTAX_ERROR, line=1), None),
    "an exception at the top level": ("f()\nxy = 1\nz", Outcome(RAISED, line=1, module_line=1), "f()\nxy "),
    "before a comment": ("f()\n# no\nxy=1\nz", Outcome(RAISED, line=1, module_line=1), "f()\n# no\nxy="),
    "before a word that may grow": ("f()\nels", Outcome(RAISED, line=1, module_line=1), None),
    "in the last statement": ("x\nf()\n\n", Outcome(RAISED, line=2, module_line=2), None),
    "between others in a line": ("f(); g(); h()\n(1)\n", Outcome(RAISED, line=1, module_line=1), "f(); g(); h()\n(1"),
    "in a block": ("if 1:\n f()\n\n@x\ndef é(): 1\n", Outcome(RAISED, line=2, module_line=2), "if 1:\n f()\n\n@x\n"),
    "in a function that the top level called": (
        "def f():\n  1/0\nx=f()\nprint(x)\n",
        Outcome(RAISED, line=2, module_line=3),
        "def f():\n  1/0\nx=f()\nprint(",
    ),
    "in a call of the tests": ("def f():\n  1/0\nx = 1\n", Outcome(RAISED, line=2), None),
    "in a fenced block": ("```\nf()\nx = 1\n```\n", Outcome(RAISED, line=1, module_line=1), None),
}


@pytest.mark.parametrize(("text", "outcome", "written"), DECIDED.values(), ids=DECIDED)
def test_a_failure_is_decided_where_the_program_can_no_longer_pass(
    text: str, outcome: Outcome, written: str | None
) -> None:
    completions = batch([text])
    for mode, expected in (("all", written), ("fraction", None), ("graded", None)):
        rewards = Composite([TestsReward(mode=mode)])(completions, [judged(text, outcome)])
        assert rewards.credit[0].min() < 0, "the failing line is blamed, wherever that is decided"
        index = (rewards.credit_at_decision[0] < 0).nonzero().item()
        assert index == (len(text) if expected is None else len(expected) - 1), mode


TEXTS = ["", "a", "b", "aa", "ab", "ba", "bb"]
"""All that a policy writes which may stop before each of two letters and must stop after them."""


def expected_gradients(scores: Mapping[str, TermScore], credit: Credit) -> tuple[Tensor, Tensor, Tensor]:
    """By enumeration: gradient of the surrogate, of the expected reward, and of the expected length."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 3, dtype=torch.float64, generator=generator).requires_grad_()  # after "", "a", "b"
    table = logits.log_softmax(-1)
    rewards, mask = scored(TEXTS, [scores[text] for text in TEXTS])
    logprobs = torch.zeros(mask.shape, dtype=torch.float64)
    for row, text in enumerate(TEXTS):
        for t, sign in enumerate([*text, "."][:2]):
            logprobs[row, t] = table[" ab".index(text[t - 1] if t else " "), "ab.".index(sign)]
    probability = logprobs.sum(-1).exp()
    assert probability.sum().item() == pytest.approx(1.0)
    to_go = reward_to_go(assign_credit(rewards, mask, credit).double(), mask)
    surrogate = (probability.detach() * (logprobs * to_go).sum(-1)).sum()
    reward = (probability * rewards.rewards.double()).sum()
    length = (probability * mask.sum(-1)).sum()
    surrogate_gradient, reward_gradient, length_gradient = (
        torch.autograd.grad(number, logits, retain_graph=True)[0].flatten() for number in (surrogate, reward, length)
    )
    return surrogate_gradient, reward_gradient, length_gradient


@pytest.mark.parametrize("credit", ["spans", "terminal"])
def test_the_expected_gradient_is_that_of_the_expected_reward(credit: Credit) -> None:
    """A b after an a makes a fault of both, a first b of itself; the rest is known at the end."""
    outcome = dict(zip(TEXTS, [0.0, 0.5, 1.0, 0.25, 1.0, 0.0, 0.75], strict=True))
    scores = {
        text: TermScore(value, tuple(Span(0, i + 1, -0.5) for i, sign in enumerate(text) if sign == "b"))
        for text, value in outcome.items()
    }
    surrogate, reward, _ = expected_gradients(scores, credit)
    assert reward.norm() > 0.1
    torch.testing.assert_close(surrogate, reward, rtol=1e-6, atol=1e-6)


def test_an_outcome_spread_evenly_pays_for_longer_programs() -> None:
    """All programs earn 1, nothing is to be learned. But after one letter another has 1/2 still to come, EOS 0."""
    scores = dict.fromkeys(TEXTS, TermScore(1.0))
    on_the_last, reward, _ = expected_gradients(scores, "spans")
    assert max(reward.norm(), on_the_last.norm()) < 1e-12
    spread, _, length = expected_gradients(scores, "tokens")
    torch.testing.assert_close(spread[3:], length[3:] / 2)
    assert length[3:].norm() > 0.1
