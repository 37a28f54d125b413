"""The token that decides a failure: no program that begins with the same tokens has another reward."""

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest
import torch
from support.completions import batch, judged, letters, problem
from support.slow_cases import slow_but

from lit_rl.execution.checks import AssertTests, CallTests, Check, StdioTests
from lit_rl.execution.interface import Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.math.returns import reward_to_go
from lit_rl.rewards import Composite, RewardTerm, SyntaxReward, TestsReward
from lit_rl.rewards.python_prefix import find_rejected_token
from lit_rl.rewards.token_credit import assign_credit
from lit_rl.rollout import find_program
from lit_rl.types import Judgement

PREFIX = "from contextlib import suppress\nT = {}\ndef get(k): return 0\n"
TOP = (
    *("T[1]", "get(1)", "x = T", "print(get(1))", "T[1]; x = 1", "elsewhere = 1", "@staticmethod"),
    *("def get(k): return 0", "def get(k): return T[k]", "def get(k):", "def pick(k): return 0", "class get(int):"),
    *("try: T[1]", "try:", "with suppress(KeyError):", "for k in 0, 1:", "if T:"),
    *("else: pass", "except KeyError: pass", "except ValueError: pass", "finally: pass"),
)
INSIDE = (
    *("T[1]", "return T[k]", "return pick(k)", "return 0", "yield T[k]", "break", "get = pick"),
    *("try: T[1]", "finally: pass", "except KeyError: return 0", "def __new__(cls, k): return T[k]"),
)
LINES = [*TOP, *(f"    {line}" for line in INSIDE)]
CHECKS: dict[str, Check] = {
    "calls": CallTests((((1,), 0),), "get"),
    "a grader": AssertTests("for k in [1]:\n    x = get(k)\n    assert x == 0\n"),
    "its output": StdioTests((("", "0\n"),)),
}


def programs(num_lines: int) -> Iterator[str]:
    """All programs of up to so many of the lines above; of the longest only those that handle or define something."""
    begun = [""]
    for missing in reversed(range(num_lines)):
        longer = [text + line + "\n" for text in begun for line in LINES]
        begun = [text for text in longer if find_rejected_token(PREFIX + text, prefix=True) is None]
        for text in begun:
            with suppress(SyntaxError):
                compile(text, "<own>", "exec")
                if missing or "get" in text or "exc" in text:
                    yield text


def placed(texts: list[str], judgements: list[Judgement], term: RewardTerm) -> list[tuple[str, float, int]]:
    """Of each completion: text, reward, and letters (with EOS) up to the one on which a loss was put."""
    rows = batch(texts)
    rewards = Composite([term])(rows, judgements)
    lost = assign_credit(rewards, rows.completion_mask, "spans") < 0
    ends = [int(row.nonzero()[0]) + 1 if row.any() else len(text) + 1 for row, text in zip(lost, texts, strict=True)]
    return list(zip(texts, rewards.rewards.tolist(), ends, strict=True))


def undone(rows: list[tuple[str, float, int]]) -> list[tuple[str, str]]:
    """Pairs of completions that share all tokens up to the one that decided the first, and differ in their rewards."""
    texts = [text for text, _, _ in rows]
    assert texts == sorted(texts)
    found = []
    for text, reward, end in rows:
        begun = text[:end] if end <= len(text) else text + "EOS"
        same = rows[bisect_left(texts, begun) : bisect_left(texts, begun + chr(sys.maxunicode))]
        found += [(text, other) for other, others, _ in same if others != reward]
    return found


def judged_programs(sandbox: Sandbox, check: Check, texts: list[str]) -> list[Judgement]:
    task = problem(check, program_prefix=PREFIX, fields={"entry_point": "get"})
    found = [find_program(task, text) for text in texts]
    outcomes = sandbox.judge_many([(one.source, check) for one in found if one is not None])
    return [Judgement(task, one, outcome) for one, outcome in zip(found, outcomes, strict=True)]


ENUMERATED = [("calls", 3), ("its output", 3), ("a grader", 2), ("calls", 4), ("its output", 4)]


@pytest.mark.parametrize(("name", "num_lines"), slow_but(ENUMERATED[:3], ENUMERATED))
def test_no_token_after_the_deciding_one_can_change_the_reward(sandbox: Sandbox, name: str, num_lines: int) -> None:
    """Item 73: by enumerating all programs of a few lines."""
    texts = sorted(programs(num_lines))
    judgements = judged_programs(sandbox, CHECKS[name], texts)
    verdicts = Counter(one.outcome.verdict for one in judgements)
    assert min(verdicts[Verdict.PASSED], verdicts[Verdict.EXCEPTION]) > 5, verdicts
    rows = placed(texts, judgements, TestsReward())
    assert undone(rows)[:3] == []
    early = sum(end <= len(text) for text, _, end in rows)
    assert early > 5, "no failure was decided before the end"


HANDLED = {
    "in a function": ("def get(k):\n    try: x = T[k]\n", "    {}\n    return x\n"),
    "at the top level": ("try: x = T[1]\n", "{}\ndef get(k):\n    return x\n"),
    "a helper": ("def get(k): return pick(k)\n", "def {}(k): return 0\n"),
    "a second definition": ("def get(k): return T[k]\n", "def {}(k): return 0\n"),
}
CHOSEN = {"a helper": ("pick", "other"), "a second definition": ("get", "other")}


@pytest.mark.parametrize("name", HANDLED)
def test_a_policy_that_chooses_between_a_handler_and_none_gets_the_gradient_of_its_reward(
    sandbox: Sandbox, name: str
) -> None:
    """Item 73: of two answers of equal probability one passes: the gradient of their logits is 1/4 and -1/4."""
    head, tail = HANDLED[name]
    chosen = CHOSEN.get(name, ("except KeyError: x = 0", "finally: pass"))
    texts = [head + tail.format(one) for one in chosen]
    tokens = [(*letters(head)[:-1], (len(head), len(text)), (len(text), len(text))) for text in texts]
    rows = batch(texts, tokens)
    rewards = Composite([TestsReward()])(rows, judged_programs(sandbox, CHECKS["calls"], texts))
    assert rewards.rewards.tolist() == [1.0, 0.0]
    to_go = reward_to_go(assign_credit(rewards, rows.completion_mask, "spans"), rows.completion_mask)
    logits = torch.zeros(2, requires_grad=True)
    logprobs = logits.log_softmax(-1)
    (logprobs.exp().detach() * logprobs * to_go[:, len(head)]).sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [0.25, -0.25]


PIECES = ("x = (", "1)", "\n", "'''", "if x:", "  ", "el", "se: y", "b'é", ";")


@pytest.mark.slow
def test_no_token_after_the_deciding_one_makes_a_program_of_a_text_that_is_none() -> None:
    texts = sorted({"".join(pieces) for size in range(5) for pieces in product(PIECES, repeat=size)})
    rows = placed(texts, [judged(text) for text in texts], SyntaxReward())
    assert undone(rows)[:3] == []
    assert sum(end <= len(text) for text, _, end in rows) > 1000
