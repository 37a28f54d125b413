"""Nothing that a policy writes makes a term hang or crash."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from support.completions import PASSED, batch, judged, letters

from lit_rl.data import SimulatorReward
from lit_rl.data.robots.robot_checks import InventedWorlds
from lit_rl.execution.checks import AssertTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import (
    BleuReward,
    Composite,
    DataflowReward,
    FormatReward,
    Grader,
    LengthPenalty,
    LintReward,
    LLMJudgeReward,
    OverlongPenalty,
    RewardTerm,
    SyntaxReward,
    TestsReward,
)
from lit_rl.rewards.flow_graph import count_dataflow_edges
from lit_rl.rewards.graders import GraderAnswer
from lit_rl.rollout import find_program
from lit_rl.types import Judgement, Problem, Program

SUCCESS = Outcome(Verdict.PASSED, robot_verdict="success")
TASK = Problem("p/0", "Write it.", AssertTests("assert f(1)"), reference="def f(a):\n    return a\n")


class Seven(Grader):
    def answer(self, prompts: Sequence[str]) -> list[GraderAnswer]:
        for prompt in prompts:
            prompt.encode()  # as a tokenizer or a server does
        return [GraderAnswer("Score: 7") for _ in prompts]


TERMS: list[RewardTerm] = [
    TestsReward(),
    SimulatorReward(),
    FormatReward(),
    LengthPenalty(alpha=0.1),
    OverlongPenalty(max_tokens=10, buffer_tokens=4),
    SyntaxReward(),
    LintReward(),
    DataflowReward(),
    BleuReward(),
    LLMJudgeReward(Seven()),
]
TEXTS = {
    "half a pair": "x = '\ud83d'\n",
    "half a pair as a name": "\udc00 = 1\n",
    "half a pair in a block": "é\ud83d:\n```python\nx = 1\ny = '\udfff'\n```\n",
    "half a pair in the talk": "\ud83d:\n```python\nx = 1\n```\n",
    "NUL": "x = 1\0\n",
    "NUL in a block": "```python\nx = '\0'\n```\n\0",
    "both": "```\n\0\ud800\n```\n",
    "nothing but NUL": "\0",
    "other line ends": "x = 1\x0b\x0c\x1c\x85\u2028y = 2\n",
}


def spans(text: str) -> tuple[tuple[int, int], ...]:
    ends = [len(text[:place].encode("utf-8", "surrogatepass")) for place in range(len(text) + 1)]
    return (*pairwise(ends), (ends[-1], ends[-1]))


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_text_that_no_file_can_hold_has_a_value_and_leaves_the_other_rows_theirs(term: RewardTerm) -> None:
    robot = isinstance(term, SimulatorReward)
    task, outcome = (replace(TASK, check=InventedWorlds()), SUCCESS) if robot else (TASK, PASSED)
    good = "x = 1\n"
    for kind, text in TEXTS.items():
        texts = [good, text, good]
        judgements = [Judgement(task, find_program(task, one), outcome) for one in texts]
        output = Composite([term])(batch(texts, [spans(one) for one in texts]), judgements)
        assert output.valid.all(), (kind, output.reasons)
        alone = Composite([term])(batch([good], [letters(good)]), judgements[:1])
        assert output.rewards[0] == output.rewards[2] == alone.rewards[0], kind


def test_half_a_pair_is_a_fault_where_it_stands() -> None:
    text = "x = 1\ny = '\ud83d'\n"
    for term in (SyntaxReward(), LintReward()):
        (score,) = term.score(batch([text], [spans(text)]), [Judgement(TASK, find_program(TASK, text), PASSED)])
        assert score.value == -1.0
        assert [(span.start, span.end) for span in score.spans] == [(10, 15)], "quotes and three bytes between them"


UNITS = r"""
|--- |--|-- | |a - * > << a<b, ( [ { (a a( a[ if(a) else a?a: ?: :: lambda: f'{ " ' \ .b( *a= @a a[a++]++; [*a] case
0x 1e $ ` ~ ; } -> return await yield ** not /* // += = == a=a= # <a> &&& ... , !
""".split()  # noqa: SIM905 - a list of them would take a line each


def test_a_repeated_pattern_is_scored_in_bounded_work() -> None:
    """The limits are steps of the walk, so the same text has the same value however busy the machine is."""
    wrong = []
    for text in [(start + unit * 2300)[:2300] for unit in UNITS[::2] for start in ("", "def f(a):\n    x = a\n")]:
        judgement = judged(text, problem=TASK, program=Program(text, 0, len(text)))
        for term in (SyntaxReward(), DataflowReward()):
            (first,) = term.score(batch([text]), [judgement])
            if first.value is None or not -1.0 <= first.value <= 1.0:
                wrong.append((term.name, text[:50], first))
    assert wrong == []


def test_a_reference_that_cannot_be_followed_is_no_fault_of_the_program() -> None:
    task = replace(TASK, reference="|---" * 575)
    (score,) = DataflowReward().score(batch(["x = 1\n"]), [judged("x = 1\n", problem=task)])
    assert score.value is None and "reference" in score.reason


def test_a_long_real_program_is_within_the_limits() -> None:
    import argparse
    import inspect

    source = inspect.getsource(argparse)
    assert len(source) > 90_000
    assert (count_dataflow_edges(source) or Counter()).total() > 1000
