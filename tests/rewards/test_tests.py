from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.completions import PASSED, reward_of
from support.two_turns import drawn, rows_of

from lit_rl.data import SimulatorReward
from lit_rl.execution.checks import AssertTests, CallTests, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import (
    Composite,
    FormatReward,
    LengthPenalty,
    OverlongPenalty,
    RewardTerm,
    TermScore,
    TestsReward,
)
from lit_rl.types import Completions, Judgement

DIVISION = "def f(x):\n    return x / 0\n"


def failed(line: int | None = None, verdict: Verdict = Verdict.EXCEPTION, *cases: Verdict, **more: Any) -> Outcome:
    return Outcome(verdict, cases=cases, line=line, **more)


CALLS = CallTests(cases=(((1,), 1),) * 4, entry_point="f")
BARE = AssertTests("x = f(1)\nassert x\nassert f(2)\nassert f(3)\nassert f(4)")
INSIDE = AssertTests("def check(f):\n    assert f(1)\n    assert f(2)\n    assert f(3)\n", "f")
HELD, WRONG = Verdict.PASSED, Verdict.WRONG_ANSWER


def test_fraction_counts_tests_that_were_never_started() -> None:
    """A program that died after its last test has not passed it."""
    for check, verdict, cases, expected in (
        (CALLS, WRONG, [WRONG], 0.0),
        (CALLS, WRONG, [HELD, WRONG], 1 / 4),
        (CALLS, WRONG, [HELD, HELD, WRONG], 2 / 4),
        (BARE, WRONG, [HELD, WRONG], 1 / 4),
        (INSIDE, WRONG, [HELD, WRONG], 1 / 3),
        (StdioTests(cases=(("", ""),) * 2), Verdict.OUT_OF_MEMORY, [HELD, HELD], 2 / 3),
    ):
        output = reward_of(TestsReward(mode="fraction"), DIVISION, failed(None, verdict, *cases), check=check)
        assert output.rewards.item() == pytest.approx(expected), (check, cases)


def test_fraction_is_the_mean_score_of_groups_of_cases() -> None:
    """A group that was not scored, because the program did not compile, counts as 0."""
    check = StdioTests((("", ""),) * 3, grades=(("small", 2), ("large", 1)))
    for scores, expected in (({"small": 0.25, "large": 1.0}, 0.625), ({"large": 0.5}, 0.25), ({}, 0.0)):
        outcome = Outcome(WRONG, cases=(HELD, HELD, WRONG), scores=scores)
        output = reward_of(TestsReward(mode="fraction"), DIVISION, outcome, check=check)
        assert output.rewards.item() == pytest.approx(expected)
    whole = Outcome(Verdict.PASSED, cases=(HELD,) * 3, scores={"small": 1.0, "large": 1.0})
    assert reward_of(TestsReward(mode="fraction"), DIVISION, whole, check=check).rewards.item() == 1.0


GRADED: list[tuple[RewardTerm, str, Outcome, float]] = [
    (TestsReward(mode="graded"), DIVISION, Outcome(Verdict.SYNTAX_ERROR), -1.0),
    (TestsReward(mode="graded"), DIVISION, Outcome(Verdict.TIMED_OUT), -0.6),
    (TestsReward(mode="graded", grades={"wrong_answer": -0.1}), DIVISION, Outcome(WRONG), -0.1),
    (TestsReward(mode="graded"), "", Outcome(Verdict.NO_PROGRAM), -1.0),
    (TestsReward(mode="graded"), DIVISION, PASSED, 1.0),
    (SimulatorReward(), DIVISION, failed(robot_verdict="python_error"), 0.0),
    (SimulatorReward(), DIVISION, failed(robot_verdict="robot_execution_error"), 0.3),
    (SimulatorReward(), DIVISION, failed(robot_verdict="completion_error"), 0.6),
    (SimulatorReward(), DIVISION, failed(robot_verdict="success"), 1.0),
    (SimulatorReward(), DIVISION, Outcome(Verdict.SYNTAX_ERROR), 0.0),
    (SimulatorReward(grades={"python_error": -1.0}), "", Outcome(Verdict.NO_PROGRAM), -1.0),
]


def test_grades_follow_the_verdict() -> None:
    for term, text, outcome, grade in GRADED:
        assert reward_of(term, text, outcome).rewards.item() == pytest.approx(grade), (term.name, outcome)


@pytest.mark.parametrize("term", [TestsReward(), SimulatorReward()])
def test_an_infrastructure_failure_is_no_zero(term: RewardTerm) -> None:
    outcome = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="no worker")
    output = reward_of(term, DIVISION, outcome)
    assert output.valid.tolist() == [False]
    assert output.reasons == {0: f"{term.name}: no worker"}


def test_the_failing_line_loses_the_whole_reward() -> None:
    output = reward_of(TestsReward(), "ab\ncd\n", failed(line=2))
    # Without fault each of six letters would earn 1/6; letters c and d share -1. EOS is outside the program.
    sixth = pytest.approx(1 / 6)
    assert output.credit[0].tolist() == [sixth] * 3 + [pytest.approx(1 / 6 - 1 / 2)] * 2 + [sixth, 0.0]
    assert output.rewards.item() == 0.0


def test_a_program_that_passed_a_blank_line_and_one_that_is_not_there_are_not_blamed(
    flagged: Callable[..., list[str]],
) -> None:
    """See test_attribution.py for how the failing line is found."""
    assert flagged(TestsReward(), DIVISION, Outcome(Verdict.PASSED, line=2)) == []
    for line in (2, 9, None):
        assert flagged(TestsReward(), "x = 1\n\ny = 2\n", failed(line)) == []


ROWS = rows_of([[1]] * 20, [drawn(str(i)) for i in range(20)])
JUDGEMENTS = [Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in ROWS.problems]


def test_more_values_than_turns_are_refused() -> None:
    class Generous(RewardTerm):
        default_name = "generous"

        def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
            return [TermScore(1.0, turn_values=(0.5, 0.5)) for _ in judgements]

    single = rows_of([[1]], [[[2, 4]]])
    with pytest.raises(ValueError, match="Generous, row 0: got 2 turn_values for 1 turns: give at most one per turn"):
        Composite([Generous()])(single, JUDGEMENTS[:1])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```python\nx = 1\n```", 0.0),
        ("Here:\r\n```\r\nx = 1\r\n```", 0.0),
        ("x = 1", -0.1),
        ("", -0.1),
    ],
)
def test_format_costs_a_tenth_without_a_fenced_program(text: str, value: float) -> None:
    assert reward_of(FormatReward(), text).rewards.item() == pytest.approx(value)
    any_program = reward_of(FormatReward(fence=False), text).rewards.item()
    assert any_program == pytest.approx(0.0 if text else -0.1)


@pytest.mark.parametrize(
    ("letters", "value"),
    # limit 10, buffer 4, EOS is one more token: free up to 6 tokens, then a quarter a token
    [(5, 0.0), (6, -0.25), (8, -0.75), (9, -1.0), (15, -1.0)],
)
def test_overlong_grows_through_the_buffer(letters: int, value: float) -> None:
    assert reward_of(OverlongPenalty(max_tokens=10, buffer_tokens=4), "x" * letters).rewards.item() == value


def test_length_costs_alpha_a_hundred_tokens() -> None:
    # 249 letters and EOS
    assert reward_of(LengthPenalty(alpha=0.03), "x" * 249).rewards.item() == pytest.approx(-0.03 * 2.5)
