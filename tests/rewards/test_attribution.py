"""Credit of each span of a text, counted by eye; in bulk against loops in test_spread_credit.py."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from support.completions import batch, problem, with_stop_reasons

from lit_rl.data import SimulatorReward
from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution.checks import AssertTests, Check, StdioTests
from lit_rl.execution.interface import Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.models.codecs.token_bytes import text_and_byte_spans
from lit_rl.rewards import Composite, RewardTerm, Span, TermScore, TestsReward
from lit_rl.rewards.program_tests import GRADES
from lit_rl.rewards.token_credit import CreditSpreader, SourceMap
from lit_rl.rollout import Judge, find_program
from lit_rl.types import Completions, Judgement, Problem, Program, StopReason

# Four tokens of two bytes, then EOS, then padding.
TOKENS = ((0, 2), (2, 4), (4, 6), (6, 8), (8, 8))
MASK = (True, True, True, True, True, False)


def of(
    tokens: tuple[tuple[int, int], ...], mask: tuple[bool, ...], program: Program | None = None, start: int = 0
) -> CreditSpreader:
    return CreditSpreader(tokens, torch.tensor(mask), program, start)


def places(start: int | None = None, end: int = 0) -> CreditSpreader:
    return of(TOKENS, MASK, None if start is None else Program("", start, end))


def credit(places: CreditSpreader, scores: list[tuple[float, TermScore]]) -> list[float]:
    return places.spread_scores(scores)[0].tolist()


def flagged(places: CreditSpreader, start: int, end: int) -> list[int]:
    return places.columns_overlapping(start, end).tolist()


ALL = (True,) * 4
# Tokens, mask, a place, and the tokens that it flags.
FLAGGED = [
    (TOKENS, MASK, (3, 5), [1, 2]),  # an overlap of one byte
    (TOKENS, MASK, (2, 4), [1]),
    (TOKENS, MASK, (2, 2), [1]),  # an empty place means the token that has its byte
    (TOKENS, MASK, (3, 3), [1]),
    (TOKENS, MASK, (8, 8), []),
    (TOKENS, (True, False, True, True, True), (0, 8), [0, 2, 3]),  # none outside the mask
    (((0, 1), (1, 4), (1, 4), (4, 5)), ALL, (2, 3), [1, 2]),  # all that share a broken character
    (((0, 3), (3, 3), (0, 3), (3, 4)), ALL, (0, 1), [0, 2]),  # with a special token inside it
    ((*TOKENS, (8, 8), (8, 8)), MASK[:4], (0, 9), [0, 1, 2, 3]),  # no padding
]


def test_tokens_of_a_place_are_flagged() -> None:
    for tokens, mask, place, expected in FLAGGED:
        assert flagged(of(tokens, mask), *place) == expected, (tokens, mask, place)


# A program's place or none, weights and scores, and the credit of each token.
CREDIT = {
    # value -1: 0.6 of it on tokens 1 and 2, the remaining 0.4 over the program's tokens 1, 2, 3
    "a span, and the rest over the program": (
        (3, 8),
        [(1.0, TermScore(-1.0, (Span(3, 5, -0.6),)))],
        [0, -0.3 - 0.4 / 3, -0.3 - 0.4 / 3, -0.4 / 3, 0, 0],
    ),
    "a span without a token is spread": ((0, 4), [(1.0, TermScore(1.0, (Span(40, 41, 1.0),)))], [0.5, 0.5, 0, 0, 0, 0]),
    "without a program all but padding, even EOS": ((), [(1.0, TermScore(-1.0))], [*[-0.2] * 5, 0]),
    "an empty program is none": ((4, 4), [(1.0, TermScore(1.0))], [*[0.2] * 5, 0]),
    "the weight scales all parts": (
        (0, 8),
        [(2.0, TermScore(-1.0, (Span(0, 1, -0.5),)))],
        [-1.25, -0.25, -0.25, -0.25, 0, 0],
    ),
    "terms add up": (
        (0, 8),
        [(1.0, TermScore(-1.0, (Span(0, 1, -1.0),))), (0.5, TermScore(4.0)), (1.0, TermScore(None))],
        [-0.5, 0.5, 0.5, 0.5, 0, 0],
    ),
}


def test_each_token_gets_its_part() -> None:
    for name, (place, scores, expected) in CREDIT.items():
        assert credit(places(*place), scores) == pytest.approx(expected), name


def test_only_the_last_turn_is_flagged_and_gets_the_rest() -> None:
    """Turn, message, and a last turn of the tokens above from column 3 on."""
    mask = (True, False, False, *MASK)
    last = of(TOKENS, mask, Program("", 2, 8), start=3)
    assert flagged(last, 3, 5) == [4, 5]
    on_tokens, decided = last.spread_scores([(1.0, TermScore(-1.0, (Span(0, 2, -0.4),)))])
    assert on_tokens.tolist() == pytest.approx([0, 0, 0, -0.4, -0.2, -0.2, -0.2, 0, 0])
    assert decided.tolist() == pytest.approx([0, 0, 0, 0, -0.4, 0, 0, 0, 0])
    without = of(TOKENS, mask, start=3)
    assert credit(without, [(1.0, TermScore(1.0))]) == pytest.approx([0, 0, 0, *[0.2] * 5, 0])


TEXTS = {
    "as it is": "Voilà:\n```python\ndef f(x):\n    return '文' + ⟪wrong⟫\n```\n",
    "in a list": "1. Voilà:\n\n   ```python\n   def f(x):\n\n       return '文' + ⟪wrong⟫\n   ```\n",
    "carriage returns": "- ```py\r\n  def f(x):\r\n    return ⟪wrong⟫\r\n  ```\r\n",
    "future imports": "- ```py\n  'é'\n  from __future__ import (division,\n    annotations)\n"
    "  def f(x):\n    return ⟪wrong⟫\n  ```\n",
    "another block is behind": "   ```python\n   def f(x):\n       return ⟪wrong⟫\n   ```\n```python\nf(1)\n```\n",
}


@pytest.mark.parametrize("marked", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("prefix", ["", "import math\n# é\n"])
def test_a_place_in_the_program_is_found_in_the_completion(marked: str, prefix: str) -> None:
    text = marked.replace("⟪", "").replace("⟫", "")
    program = find_program(problem(fields={"entry_point": "f"}, program_prefix=prefix), text)
    assert program is not None
    compile(program.source, "<program>", "exec")
    places = SourceMap(text, program)
    assert places.known
    begin = len(program.source.partition("wrong")[0].encode())
    span = places.text_span(begin, begin + len("wrong"), -1.0)
    assert span is not None
    first = len(marked.partition("⟪")[0].encode())
    assert (span.start, span.end) == (first, first + len("wrong"))
    line = program.source[: program.source.index("wrong")].count("\n") + 1
    of_line = places.line_reward_span(line, -1.0)
    assert of_line is not None
    assert text.encode()[of_line.start : of_line.end].decode().strip().startswith("return")
    assert text.encode()[of_line.start : of_line.end].decode().endswith("wrong")


def test_nothing_of_the_prefix_has_a_place() -> None:
    text = "   ```python\n   x = 1\n   ```\n"
    program = find_program(problem(program_prefix="import math\n"), text)
    assert program is not None
    assert SourceMap(text, program).line_reward_span(1, -1.0) is None
    assert SourceMap(text, program).text_span(0, len("import math\n"), -1.0) is None


@dataclass(frozen=True)
class Marked:
    """A completion as Qwen2.5 would have sampled it, and the tokens that overlap the inside of its marks.

    ⟦ ⟧ stand around what a value without a place is spread over, ⟪ ⟫ around the place that is blamed. ␄ is EOS, without
    which the token limit cut the text; at the very end, ␡ takes one token away, so that the cut is inside a character.
    """

    completions: Completions
    even: list[int]
    blamed: list[int]


def read_marked(tokenizer: Any, source: str) -> Marked:
    """Tokens are those of the tokenizer's offsets, not of the code under test, which has the sampled ids alone."""
    plain, opened = "", list[str]()
    inside: dict[str, set[int]] = {"⟦": set(), "⟪": set()}
    for sign in source.rstrip("␡"):
        if sign in inside:
            opened.append(sign)
        elif sign in "⟧⟫":
            opened.pop()
        else:
            for mark in opened:
                inside[mark].add(len(plain))
            plain += sign
    ended = plain.endswith("␄")
    encoded = tokenizer(plain.removesuffix("␄"), add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = list(encoded["input_ids"]), list(encoded["offset_mapping"])
    assert tokenizer.decode(ids) == plain.removesuffix("␄"), "write characters in the tokenizer's normal form (NFC)"
    if ended:
        ids, offsets = [*ids, tokenizer.eos_token_id], [*offsets, (len(plain) - 1, len(plain))]
    ids = ids[: len(ids) - source.count("␡")]
    text, spans = text_and_byte_spans(tokenizer, ids)
    assert text == tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    completions = with_stop_reasons(batch([text], [spans]), StopReason.EOS if ended else StopReason.LENGTH)
    even, blamed = ([t for t in range(len(ids)) if inside[mark] & set(range(*offsets[t]))] for mark in "⟦⟪")
    return Marked(completions, even, blamed)


def judge_marked(marked: Marked, problem: Problem, sandbox: Sandbox) -> Judgement:
    program = find_program(problem, marked.completions.texts[0])
    return Judgement(problem, program, Judge(sandbox).start_program(problem, program, problem.check).result(60))


def check_credit(term: RewardTerm, marked: Marked, judgement: Judgement, value: float, blamed: float = 0.0) -> None:
    """Of the value, ``blamed`` is spread over the tokens of the blamed place and the rest over the others' marks."""
    assert bool(blamed) is bool(marked.blamed), "a place is marked if and only if a value is expected there"
    expected = torch.zeros(marked.completions.completion_ids.shape[1])
    expected[marked.even] += (value - blamed) / len(marked.even)
    if blamed:
        expected[marked.blamed] += blamed / len(marked.blamed)
    output = Composite([term])(marked.completions, [judgement])
    assert output.valid.all(), output.reasons
    assert output.rewards.item() == pytest.approx(value)
    assert output.credit[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert output.credit.sum().item() == pytest.approx(value, abs=1e-5)


DOUBLE = AssertTests("assert f(2) == 4\nassert f(3) == 6", timeout_seconds=0.4)
STDIN = StdioTests((("2\n", "4\n"),), timeout_seconds=1.0)
PASSED, WRONG, RAISED = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.EXCEPTION
BROKEN, LATE, NOTHING = Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT, Verdict.NO_PROGRAM

TESTED: dict[str, tuple[str, Verdict, Check]] = {
    "right": ("```python\n⟦def f(x):\n    return 2 * x\n⟧```␄", PASSED, DOUBLE),
    "wrong": ("Sure:\n```python\n⟦def f(x):\n    return x\n⟧```␄", WRONG, DOUBLE),
    "fenced": ("```python\n⟦def f(x):\n    ⟪y = x / 0⟫\n    return y\n⟧```␄", RAISED, DOUBLE),
    "carriage returns": ("⟦def f(x):\r\n    ⟪día = x / 0⟫\r\n    return día\r\n⟧␄", RAISED, DOUBLE),
    "a tab of the same token": ("⟦def f(x):\n⟪\treturn x / 0⟫\n⟧␄", RAISED, DOUBLE),
    "a character of three tokens": ("```\n⟦def f(x):\n    ⟪return x[0]  # 鬱⟫\n⟧```\n鬱␄", RAISED, DOUBLE),
    "a helper": ("⟦def g(x):\n    ⟪raise ValueError('é')⟫\n\ndef f(x):\n    return g(x)\n⟧␄", RAISED, DOUBLE),
    "the innermost line of one expression": ("⟦def f(x):\n    return (x +\n        ⟪(1 / 0))⟫\n⟧␄", RAISED, DOUBLE),
    "two blocks": ("```\ndef f(x):\n    return 1 / 0\n```\n```\n⟦def f(x):\n    ⟪return 0 / 0⟫\n⟧```␄", RAISED, DOUBLE),
    "an open bracket": ("```python\n⟦def f(x):\n    ⟪return (2 * x⟫\n⟧```␄", BROKEN, DOUBLE),
    "cut inside a character": ("⟦def f(x):\n    return 2 * x  # 鬱⟧␡", PASSED, DOUBLE),
    "no end": ("```\n⟦def f(x):\n    while True: pass  # 😀\n⟧```␄", LATE, DOUBLE),
    "nothing": ("⟦␄⟧", NOTHING, DOUBLE),
    "stdin": ("```\n⟦n = int(input())\n⟪print(n // 0)  # 😀⟫\n⟧```␄", RAISED, STDIN),
}


def test_lines_of_a_prefix_are_counted_and_never_pay(qwen: Any, sandbox: Sandbox) -> None:
    task = problem(DOUBLE, program_prefix="def g(x):\n    return x / 0  # é\n\ndef f(x):\n    '''Día.'''\n")
    term = TestsReward(mode="graded")
    own = read_marked(qwen, "⟦    y = 1\n    ⟪return x / 0⟫\n⟧␄")
    check_credit(term, own, judge_marked(own, task, sandbox), -0.6, -1.6)
    given = read_marked(qwen, "⟦    y = 1\n    return 2 * x if y else g(x)\n⟧␄")
    check_credit(term, given, judge_marked(given, task, sandbox), 1.0)
    blamed_on_the_prefix = read_marked(qwen, "⟦    return g(x)  # 文\n⟧␄")
    check_credit(term, blamed_on_the_prefix, judge_marked(blamed_on_the_prefix, task, sandbox), -0.6)


STATE = {
    "locations": ["kitchen", "hall", "start_loc"],
    "objects": {"kitchen": ["cup", "plate"]},
    "agents": {"hall": [{"name": "ann", "answers": ["yes"]}]},
    "robot_location": "start_loc",
}
SAY_HI = RobotWorlds((RobotTest(STATE, False, ["exists", "trace", ["Say", "hi"]]),), timeout_seconds=0.3)
SUCCESS, INCOMPLETE, CHECKS_THAT_RAISE, PYTHON = "success", "completion_error", "robot_execution_error", "python_error"
ROBOT_GRADES = {PYTHON: -0.5, CHECKS_THAT_RAISE: 0.3, INCOMPLETE: 0.6, SUCCESS: 1.0}
HEAD = "def task_program():\n"
FENCED = f"```python\n⟦{HEAD}"

SIMULATED: dict[str, tuple[str, str]] = {
    "done": (f"{FENCED}    say('hi')\n⟧```␄", SUCCESS),
    "not done": (f"{FENCED}    go_to('hall')\n⟧```␄", INCOMPLETE),
    "no such room": (f"{FENCED}    say('hi')\n    ⟪go_to('küche')⟫\n    say('文')\n⟧```␄", CHECKS_THAT_RAISE),
    "capitals that become small": (f'⟦{HEAD}    x = "ÄÖ"\n    ⟪go_to("KÜCHE")⟫\n⟧␄', CHECKS_THAT_RAISE),
    "no definition": ("⟦    say('hi')\n    ⟪go_to('moon')⟫\n    say('é')⟧␄", CHECKS_THAT_RAISE),
    "the first of two blocks": (
        f"É:\n{FENCED}    ⟪pick('é')⟫\n⟧```\n```python\n{HEAD}    say('hi')\n```␄",
        CHECKS_THAT_RAISE,
    ),
    "an exception": (f"{FENCED}    say('hi')\n    ⟪día = 1 / 0⟫\n⟧```␄", PYTHON),
    "nothing": ("⟦␄⟧", PYTHON),
}


ENDED = TESTED | {f"a robot: {name}": (*case, SAY_HI) for name, case in SIMULATED.items()}


@pytest.mark.parametrize(("source", "verdict", "check"), ENDED.values(), ids=ENDED)
def test_the_failing_line_or_the_refused_call_pays(
    qwen: Any, sandbox: Sandbox, source: str, verdict: Any, check: Check
) -> None:
    marked = read_marked(qwen, source)
    judgement, simulated = judge_marked(marked, problem(check), sandbox), check is SAY_HI
    ended = (judgement.outcome.robot_verdict or PYTHON) if simulated else judgement.outcome.verdict
    assert ended == verdict, judgement.outcome
    grades = ROBOT_GRADES if simulated else GRADES
    lost = grades[verdict] - 1.0 if marked.blamed else 0.0
    term = SimulatorReward(grades={PYTHON: -0.5}) if simulated else TestsReward(mode="graded")
    check_credit(term, marked, judgement, grades[verdict], lost)
