"""Credit of random rollouts: spans and turns, against a loop over tokens."""

import random
from itertools import pairwise

import pytest
import torch
from support.completions import FixedScores, problem
from support.plain_loops import plain_credit

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import ALL_TEXT, Composite, RewardTerm, Span, TermScore
from lit_rl.types import Completions, Judgement, Program, StopReason, Turn

CHARACTERS = ("x", " ", "\n", "é", "去", "😀")


def turn(rng: random.Random, start: int, num_tokens: int) -> Turn:
    """A turn whose tokens are runs of bytes, of which some share a character and some wrote nothing."""
    text = "".join(rng.choice(CHARACTERS) for _ in range(num_tokens))
    size = len(text.encode())
    cuts = sorted(rng.randint(0, size) for _ in range(num_tokens - 1))
    edges = [0, *cuts, size]
    spans = list(pairwise(edges))
    for t in range(num_tokens - 1):
        if rng.random() < 0.1 and spans[t][1] > spans[t][0]:  # a broken character that two tokens share
            spans[t + 1] = (spans[t][0], max(spans[t + 1][1], spans[t][1]))
            spans[t] = (spans[t][0], spans[t + 1][1]) if spans[t + 1][0] == spans[t][0] else spans[t]
    ended = rng.random() < 0.7
    spans += [(size, size)] * ended
    reason = StopReason.EOS if ended else StopReason.LENGTH
    return Turn(start, start + len(spans), text, tuple(spans), reason)


def row(rng: random.Random) -> tuple[list[bool], tuple[Turn, ...]]:
    """Columns of one to three turns with what the environment said between them."""
    mask: list[bool] = []
    turns = []
    for number in range(rng.randint(1, 3)):
        if number:
            mask += [False] * rng.randint(1, 4)
        said = turn(rng, len(mask), rng.randint(1, 12))
        turns.append(said)
        mask += [True] * (said.end - said.start)
    if rng.random() < 0.2:  # the mask may have a hole anywhere
        mask[rng.randrange(len(mask) - 1) if len(mask) > 1 else 0] = len(mask) == 1
    return mask, tuple(turns)


def rollout(rng: random.Random, num_rows: int) -> tuple[Completions, list[Judgement]]:
    rows = [row(rng) for _ in range(num_rows)]
    width = max(len(mask) for mask, _ in rows) + rng.randint(0, 2)
    mask = torch.tensor([[*flags, *[False] * (width - len(flags))] for flags, _ in rows])
    ids = torch.zeros(mask.shape, dtype=torch.long)
    turns = tuple(said for _, said in rows)
    task = problem()
    completions = Completions(
        (task,) * num_rows, ids[:, :1], ids[:, :1] == 0, ids, mask, mask, ids * 0.0, turns, torch.arange(num_rows)
    )
    judgements = []
    for said in turns:
        size = len(said[-1].text.encode())
        start = rng.randint(0, size)
        program = None if rng.random() < 0.2 else Program("", start, rng.randint(start, size + 1))
        judgements.append(Judgement(task, program, Outcome(Verdict.PASSED)))
    return completions, judgements


def scores_of(rng: random.Random, completions: Completions) -> list[TermScore]:
    scores = []
    for turns in completions.turns:
        size = len(turns[-1].text.encode())
        spans = []
        for _ in range(rng.choice((0, 0, 1, 3, 8))):
            start = rng.randint(0, size)
            end, until = min(size, start + rng.randint(0, 9)), rng.choice((0, 0, rng.randint(0, size), ALL_TEXT))
            spans.append(Span(start, end, rng.uniform(-1, 1), until))
        values = tuple(rng.uniform(-1, 1) for _ in range(rng.randint(0, len(turns)))) if rng.random() < 0.4 else ()
        covered = sum(span.value for span in spans) if rng.random() < 0.3 else rng.choice((0, 1, -0.37))
        scores.append(TermScore(None if rng.random() < 0.05 else covered, tuple(spans), "why", values))
    return scores


@pytest.mark.parametrize("seed", range(6))
def test_credit_of_random_rollouts_is_that_of_a_loop_over_tokens(seed: int) -> None:
    rng = random.Random(seed)
    completions, judgements = rollout(rng, 40)
    scores = [scores_of(rng, completions) for _ in range(3)]
    terms: list[RewardTerm] = [
        FixedScores(scores[0], 1.0, "a"),
        FixedScores(scores[1], 0.3, "b"),
        FixedScores(scores[2], 0.0, "c"),
    ]
    composite = Composite(terms)
    output = composite(completions, judgements)
    rewards, credit, decided = plain_credit(composite, completions, judgements, scores)
    assert torch.equal(output.rewards, rewards)
    assert torch.equal(output.credit, credit)
    assert torch.equal(output.credit_at_decision, decided)
    assert credit.abs().sum() > 1 and decided.abs().sum() > 1, "nothing was compared"
