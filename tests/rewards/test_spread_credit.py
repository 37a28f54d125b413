"""Terms without places: their value lies evenly on the program's tokens, or on all where there is no program.

The marks are explained in :mod:`tests.rewards.marked`.
"""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import sacrebleu
import torch
from support.completions import FixedScores, problem
from support.marked_completions import check_credit, judge_marked, read_marked
from support.plain_loops import plain_credit

from lit_rl.execution.checks import ReferenceText
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import (
    ALL_TEXT,
    BleuReward,
    Composite,
    DataflowReward,
    FormatReward,
    Grader,
    LengthPenalty,
    LLMJudgeReward,
    OverlongPenalty,
    RewardTerm,
    Span,
    TermScore,
)
from lit_rl.rewards.graders import Answer
from lit_rl.types import Completions, Judgement, Program, StopReason, Turn

REFERENCE = "x = 1\nprint(x)\n"
PREFIX = "def f(a, b):\n    '''Día.'''\n"

PROGRAMS = {
    "a program alone": "⟦x = 1\nprint(x)\n⟧␄",
    "a fenced program": "Sure:\n```python\n⟦x = 1\n⟧```\nDone.␄",
    "carriage returns": "Here:\r\n```python\r\n⟦x = 1\r\nprint(x)\r\n⟧```\r\n␄",
    "the last of two blocks": "```python\nx = 0\n```\nBetter:\n```python\n⟦y = 2\n⟧```␄",
    "a face in the program": "```python\n⟦print('😀 é')\n⟧```␄",
    "characters of several tokens": "```python\n⟦# 去\nx = 1  # 鬱\n⟧```\n去␄",
    "cut inside a block": "```python\n⟦x = [1, 2,⟧",
    "cut inside a character": "Voilà:\n```python\n⟦x = ' 去⟧␡",
    "backticks inside": "````\n⟦s = '```'\nx = 1\n⟧````␄",
    "a line end that fence and program share a token with": "```\n⟦\nx = 1\n⟧```␄",
    "a block inside a list": "1. Do:\n   ```python\n⟦   x = 1\n⟧   ```\n2. End.␄",
    "a blank last block": "```\n⟦x = 1\n⟧```\n```\n\n```␄",
    "talk counts as a program": "⟦I do not know x. 🤷⟧␄",
}
NO_PROGRAMS = {
    "nothing": "⟦␄⟧",
    "a blank block": "⟦Nothing to do 🙏:\n```python\n```␄⟧",
    "a block just opened, cut": "⟦Sure:\n```python\n⟧",
}
COMPLETIONS = PROGRAMS | NO_PROGRAMS


class Seven(Grader):
    def answer(self, prompts: Sequence[str]) -> list[Answer]:
        return [Answer("Score: 7") for _ in prompts]


@pytest.mark.parametrize("source", COMPLETIONS.values(), ids=COMPLETIONS)
def test_length_likeness_and_a_judges_score_are_those_of_the_program_or_of_all(qwen: Any, source: str) -> None:
    marked = read_marked(qwen, source)
    judgement = judge_marked(marked, problem(ReferenceText(REFERENCE)))
    check_credit(LengthPenalty(alpha=2.0), marked, judgement, -2.0 * marked.num_tokens / 100)
    # With a buffer as long as the limit each of the 40 tokens costs 1/40.
    overlong = OverlongPenalty(max_tokens=40, buffer_tokens=40)
    check_credit(overlong, marked, judgement, -min(1.0, marked.num_tokens / 40))
    has_program = source in PROGRAMS.values()
    options = {"tokenize": "char", "use_effective_order": True}
    likeness = sacrebleu.sentence_bleu(marked.inside, [REFERENCE], **options).score / 100 if has_program else 0.0
    assert (likeness > 0) is has_program
    check_credit(BleuReward(tokenize="char"), marked, judgement, likeness)
    check_credit(LLMJudgeReward(Seven()), marked, judgement, 0.7 if has_program else 0.0)


FORMAT = {
    "a fenced program": ("Sure:\n```python\n⟦x = 1\n⟧```␄", 0.0),
    "a block that never closes": ("```python\n⟦x = 1⟧", 0.0),
    "no fence": ("⟦x = 1\n⟧␄", -1.0),
    "no fence, cut inside a character": ("⟦x = 1  # 去⟧␡", -1.0),
    "a fence inside a line is none": ("⟦Use ```x = 1``` here.⟧␄", -1.0),
    "only talk": ("⟦I cannot do that. 🙏⟧␄", -1.0),
    "nothing": ("⟦␄⟧", -1.0),
    "a blank block": ("⟦```python\n```␄⟧", -1.0),
    "a blank last block": ("```\n⟦x = 1\n⟧```\nNo:\n```\n```␄", 0.0),
}


@pytest.mark.parametrize(("source", "value"), FORMAT.values(), ids=FORMAT)
def test_a_missing_fence_is_paid_by_the_program_or_by_all(qwen: Any, source: str, value: float) -> None:
    marked = read_marked(qwen, source)
    judgement = judge_marked(marked, problem(ReferenceText(REFERENCE)))
    check_credit(FormatReward(weight=1.0), marked, judgement, value)


# Edges of the references: a and b come to where they are read, c is computed from both and comes to the return.
ADD = "def f(a, b):\n    c = a + b\n    return c\n"
DATA_FLOW = {
    "the reference": (f"```python\n⟦{ADD}⟧```␄", 1),
    "other names, carriage returns": ("⟦def f(é, ß):\r\n    día = é + ß\r\n    return día\r\n⟧␄", 1),
    "more than the reference": ("⟦def f(a, b):\n    c = a + b\n    print(c, c)\n    return c\n⟧␄", 1),
    "without c: a and b are read": ("⟦def f(a, b):\n    return a + b\n⟧␄", 2 / 5),
    "b unread: a, c from a, c": ("```\n⟦def f(a, b):\n    c = a + a\n    return c\n⟧```␄", 3 / 5),
    "a variable in front shifts the numbers": ("⟦k = 0\ndef f(a, b):\n    c = a + b\n    return c\n⟧␄", 2 / 5),
    "cut before the return's value": ("```python\n⟦def f(a, b):\n    c = a + b\n    return⟧", 4 / 5),
    "cut inside a character": ("⟦def f(a, b):\n    c = a + b  # 去⟧␡", 4 / 5),
    "nothing": ("⟦␄⟧", 0),
    "a blank block": ("⟦Voilà:\r\n```python\r\n```␄⟧", 0),
}


@pytest.mark.parametrize("name", DATA_FLOW)
def test_data_flow_is_earned_by_the_program(qwen: Any, name: str) -> None:
    source, value = DATA_FLOW[name]
    marked = read_marked(qwen, source)
    check_credit(DataflowReward(), marked, judge_marked(marked, problem(ReferenceText(ADD, "python"))), value)


def test_what_goes_on_from_a_prefix_is_paid_without_it(qwen: Any) -> None:
    marked = read_marked(qwen, "⟦    c = a + b\n    return c  # é\n⟧␄")
    judgement = judge_marked(marked, problem(ReferenceText(ADD, "python"), program_prefix=PREFIX))
    check_credit(DataflowReward(), marked, judgement, 1)
    check_credit(FormatReward(weight=1.0), marked, judgement, -1)
    check_credit(LengthPenalty(alpha=2.0), marked, judgement, -2.0 * marked.num_tokens / 100)


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


@pytest.mark.parametrize("limits", [(None, None), (-0.5, 0.6), (0.2, 0.9)], ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_credit_of_random_rollouts_is_that_of_a_loop_over_tokens(
    seed: int, limits: tuple[float | None, float | None]
) -> None:
    rng = random.Random(seed)
    completions, judgements = rollout(rng, 40)
    scores = [scores_of(rng, completions) for _ in range(3)]
    terms: list[RewardTerm] = [
        FixedScores(scores[0], 1.0, "a"),
        FixedScores(scores[1], 0.3, "b"),
        FixedScores(scores[2], 0.0, "c"),
    ]
    composite = Composite(terms, *limits)
    output = composite(completions, judgements)
    rewards, credit, decided = plain_credit(composite, completions, judgements, scores)
    assert torch.equal(output.rewards, rewards)
    assert torch.equal(output.credit, credit)
    assert torch.equal(output.decided, decided)
    assert credit.abs().sum() > 1 and decided.abs().sum() > 1, "nothing was compared"


def test_rows_do_not_reach_into_each_other() -> None:
    """The end of a text, and the last token of a row, stay in their row."""
    rng = random.Random(0)
    completions, judgements = rollout(rng, 2)
    end = len(completions.texts[0].encode())
    far = TermScore(1.0, (Span(end, end, 1.0), Span(0, end, 1.0)))
    output = Composite([FixedScores([far, TermScore(0.0)], 1.0, "far")])(completions, judgements)
    assert float(output.credit[0].sum()) == pytest.approx(1.0)
    assert not output.credit[1].any() and not output.decided[1].any()


def test_a_rollout_without_rows_has_no_credit() -> None:
    completions, judgements = rollout(random.Random(0), 1)
    output = Composite([FixedScores([], 1.0, "none")])(completions.select([]), judgements[:0])
    assert output.credit.shape == (0, completions.completion_ids.shape[1]) and len(output.rewards) == 0
