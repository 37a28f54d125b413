"""Terms without places: their value lies evenly on the program's tokens, or on all where there is no program.

The marks are explained in :mod:`tests.rewards.marked`.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import sacrebleu
from support.completions import problem
from support.marked_completions import check_credit, judge_marked, read_marked

from lit_rl.execution.checks import ReferenceText
from lit_rl.rewards import (
    BleuReward,
    DataflowReward,
    FormatReward,
    Grader,
    LengthPenalty,
    LLMJudgeReward,
    OverlongPenalty,
)
from lit_rl.rewards.graders import Answer

REFERENCE = "x = 1\nprint(x)\n"
PREFIX = "def f(a, b):\n    '''Día.'''\n"

PROGRAMS = {
    "a program alone": "⟦x = 1\nprint(x)\n⟧␄",
    "a fenced program": "Sure:\n```python\n⟦x = 1\n⟧```\nDone.␄",
    "carriage returns": "Here:\r\n```python\r\n⟦x = 1\r\nprint(x)\r\n⟧```\r\n␄",
    "old line ends": "⟦x = 1\ry = 2\r⟧␄",
    "the last of two blocks": "```python\nx = 0\n```\nBetter:\n```python\n⟦y = 2\n⟧```␄",
    "a closed block, then an open one": "```\nx = 0\n```\nOr:\n```\n⟦y = 2\nprint(y)⟧␄",
    "a face in the program": "```python\n⟦print('😀 é')\n⟧```␄",
    "a face in the talk": "😀 Voilà :\n```\n⟦x = 1\n⟧```\n🎉␄",
    "a family of seven code points": "```python\n⟦s = '👩‍👩‍👧🏽🇩🇪'\n⟧```␄",
    "combining characters": "Voici n̈:\n```python\n⟦n̈ = 'x̂'\nprint(n̈)\n⟧```␄",
    "characters of several tokens": "```python\n⟦# 去\nx = 1  # 鬱\n⟧```\n去␄",
    "cut inside a block": "```python\n⟦x = [1, 2,⟧",
    "cut inside a character": "Voilà:\n```python\n⟦x = ' 去⟧␡",
    "cut inside the talk": "```python\n⟦x = 1\n⟧```\nThis program",
    "cut after one token": "⟦x⟧",
    "tildes": "~~~python\n⟦x = 1\n⟧~~~␄",
    "backticks inside": "````\n⟦s = '```'\nx = 1\n⟧````␄",
    "a line end that fence and program share a token with": "```\n⟦\nx = 1\n⟧```␄",
    "a block inside a list": "1. Do:\n   ```python\n⟦   x = 1\n⟧   ```\n2. End.␄",
    "a blank last block": "```\n⟦x = 1\n⟧```\n```\n\n```␄",
    "talk counts as a program": "⟦I do not know x. 🤷⟧␄",
}
NO_PROGRAMS = {
    "nothing": "⟦␄⟧",
    "blank lines": "⟦\n  \r\n␄⟧",
    "a blank block": "⟦Nothing to do 🙏:\n```python\n```␄⟧",
    "a block just opened, cut": "⟦Sure:\n```python\n⟧",
}
COMPLETIONS = PROGRAMS | NO_PROGRAMS


class Seven(Grader):
    identity = "seven"

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
    "carriage returns around a block": ("Sure:\r\n```\r\n⟦x = 1\r\n⟧```␄", 0.0),
    "a block that never closes": ("```python\n⟦x = 1⟧", 0.0),
    "tildes are a fence": ("~~~\n⟦é = 1\n⟧~~~␄", 0.0),
    "a block between faces": ("😀\n```\n⟦x = 1\n⟧```\n😀␄", 0.0),
    "two blocks": ("```\nx = 1\n```\n```\n⟦x = 2\n⟧```␄", 0.0),
    "no fence": ("⟦x = 1\n⟧␄", -1.0),
    "no fence, carriage returns": ("⟦x = 1\r\nprint(x)\r\n⟧␄", -1.0),
    "no fence, a face": ("⟦print('😀')⟧␄", -1.0),
    "no fence, combining characters": ("⟦n̈ = 'x̂'⟧␄", -1.0),
    "no fence, characters of several tokens": ("⟦x = 1  # 去鬱⟧␄", -1.0),
    "no fence, cut": ("⟦def f(x):\n    return⟧", -1.0),
    "no fence, cut inside a character": ("⟦x = 1  # 去⟧␡", -1.0),
    "a fence inside a line is none": ("⟦Use ```x = 1``` here.⟧␄", -1.0),
    "two backticks are no fence": ("⟦``\nx = 1\n``⟧␄", -1.0),
    "only talk": ("⟦I cannot do that. 🙏⟧␄", -1.0),
    "nothing": ("⟦␄⟧", -1.0),
    "blank lines": ("⟦ \r\n\n␄⟧", -1.0),
    "a blank block": ("⟦```python\n```␄⟧", -1.0),
    "a blank block after talk, é": ("⟦Voilà, 文:\n```\n \n```\nDone.␄⟧", -1.0),
    "a blank last block": ("```\n⟦x = 1\n⟧```\nNo:\n```\n```␄", 0.0),
    "a block just opened, cut": ("⟦Sure:\n```python⟧", -1.0),
}


@pytest.mark.parametrize(("source", "value"), FORMAT.values(), ids=FORMAT)
def test_a_missing_fence_is_paid_by_the_program_or_by_all(qwen: Any, source: str, value: float) -> None:
    marked = read_marked(qwen, source)
    judgement = judge_marked(marked, problem(ReferenceText(REFERENCE)))
    check_credit(FormatReward(weight=1.0), marked, judgement, value)


# Edges of the references: a and b come to where they are read, c is computed from both and comes to the return.
ADD = "def f(a, b):\n    c = a + b\n    return c\n"
ADD_CPP = "int f(int a, int b) { int c = a + b; return c; }\n"
DATA_FLOW = {
    "the reference": (f"```python\n⟦{ADD}⟧```␄", 1),
    "other names, carriage returns": ("⟦def f(é, ß):\r\n    día = é + ß\r\n    return día\r\n⟧␄", 1),
    "faces in comments": ("😀\n```\n⟦def f(a, b):  # 😀\n    c = a + b\n    return c  # 去\n⟧```␄", 1),
    "combining characters": ("⟦def f(n̈, b):\n    x̂ = n̈ + b\n    return x̂\n⟧␄", 1),
    "parameters the other way round": ("⟦def f(b, a):\n    c = a + b\n    return c⟧␄", 1),
    "another operator": ("```python\n⟦def f(a, b):\n    c = a - b\n    return c\n⟧```\nIt adds.␄", 1),
    "more than the reference": ("⟦def f(a, b):\n    c = a + b\n    print(c, c)\n    return c\n⟧␄", 1),
    "without c: a and b are read": ("⟦def f(a, b):\n    return a + b\n⟧␄", 2 / 5),
    "b unread: a, c from a, c": ("```\n⟦def f(a, b):\n    c = a + a\n    return c\n⟧```␄", 3 / 5),
    "a variable in front shifts the numbers": ("⟦k = 0\ndef f(a, b):\n    c = a + b\n    return c\n⟧␄", 2 / 5),
    "one parameter": ("⟦def f(a):\n    return a\n⟧␄", 1 / 5),
    "the last block counts": (f"```\n{ADD}```\nShorter:\n```\n⟦def f(a, b):\n    return a + b\n⟧```␄", 2 / 5),
    "cut before the return's value": ("```python\n⟦def f(a, b):\n    c = a + b\n    return⟧", 4 / 5),
    "cut inside a character": ("⟦def f(a, b):\n    c = a + b  # 去⟧␡", 4 / 5),
    "talk has no flow": ("⟦I do not know. 🤷⟧␄", 0),
    "nothing": ("⟦␄⟧", 0),
    "a blank block": ("⟦Voilà:\r\n```python\r\n```␄⟧", 0),
}
DATA_FLOW_CPP = {
    "the reference in C++": (f"```cpp\n⟦{ADD_CPP}⟧```␄", 1),
    "C++ with carriage returns": ("⟦int f(int a, int b) {\r\n  int c = a + b; // é\r\n  return c;\r\n}\r\n⟧␄", 1),
    "C++ without c": ("⟦int f(int a, int b) { return a + b; } // 😀⟧␄", 2 / 5),
    "C++ with b unread": ("```\n⟦int f(int a, int b) { int c = a; return c; }\n⟧```␄", 3 / 5),
}


@pytest.mark.parametrize("name", DATA_FLOW | DATA_FLOW_CPP)
def test_data_flow_is_earned_by_the_program(qwen: Any, name: str) -> None:
    source, value = (DATA_FLOW | DATA_FLOW_CPP)[name]
    reference = ReferenceText(ADD_CPP, "cpp") if name in DATA_FLOW_CPP else ReferenceText(ADD, "python")
    marked = read_marked(qwen, source)
    check_credit(DataflowReward(), marked, judge_marked(marked, problem(reference)), value)


def test_what_goes_on_from_a_prefix_is_paid_without_it(qwen: Any) -> None:
    marked = read_marked(qwen, "⟦    c = a + b\n    return c  # é\n⟧␄")
    judgement = judge_marked(marked, problem(ReferenceText(ADD, "python"), program_prefix=PREFIX))
    check_credit(DataflowReward(), marked, judgement, 1)
    check_credit(FormatReward(weight=1.0), marked, judgement, -1)
    check_credit(LengthPenalty(alpha=2.0), marked, judgement, -2.0 * marked.num_tokens / 100)
