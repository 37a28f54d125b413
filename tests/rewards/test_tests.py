from collections.abc import Callable

import pytest
from support.completions import PASSED, problem, reward_of

from lit_rl.execution.checks import AssertTests, CallTests, ReferenceText, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import TestsReward

DIVISION = "def f(x):\n    return x / 0\n"


def failed(line: int | None = None, verdict: Verdict = Verdict.EXCEPTION, *cases: Verdict) -> Outcome:
    return Outcome(verdict, cases=cases, line=line)


def test_all_or_nothing() -> None:
    assert reward_of(TestsReward(), DIVISION).rewards.tolist() == [1.0]
    assert reward_of(TestsReward(), DIVISION, failed()).rewards.tolist() == [0.0]


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


def test_grades_follow_the_verdict() -> None:
    term = TestsReward(mode="graded", grades={"wrong_answer": -0.1})
    verdicts = [Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT, Verdict.WRONG_ANSWER]
    values = [reward_of(term, DIVISION, Outcome(verdict)).rewards.item() for verdict in verdicts]
    assert values == pytest.approx([-1.0, -0.6, -0.1])
    assert reward_of(term, "", Outcome(Verdict.NO_PROGRAM)).rewards.item() == -1.0
    assert reward_of(term, DIVISION, PASSED).rewards.item() == 1.0


def test_an_infrastructure_failure_is_no_zero() -> None:
    outcome = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="no worker")
    output = reward_of(TestsReward(), DIVISION, outcome)
    assert output.valid.tolist() == [False]
    assert output.reasons == {0: "tests: no worker"}


def test_the_failing_line_loses_the_whole_reward() -> None:
    output = reward_of(TestsReward(), "ab\ncd\n", failed(line=2))
    # Without fault each of six letters would earn 1/6; letters c and d share -1. EOS is outside the program.
    sixth = pytest.approx(1 / 6)
    assert output.credit[0].tolist() == [sixth] * 3 + [pytest.approx(1 / 6 - 1 / 2)] * 2 + [sixth, 0.0]
    assert output.rewards.item() == 0.0


def test_a_loss_without_a_line_is_spread_over_the_program_only() -> None:
    output = reward_of(TestsReward(mode="graded"), "Hi\n```\nab\n```", Outcome(Verdict.WRONG_ANSWER))
    # the program is "ab\n", letters 7 to 9
    assert output.credit[0].tolist() == pytest.approx([0.0] * 7 + [-0.1] * 3 + [0.0] * 4)


def test_a_program_that_passed_a_blank_line_and_one_that_is_not_there_are_not_blamed(
    flagged: Callable[..., list[str]],
) -> None:
    """Where the failing line is found is in test_blamed_credit.py."""
    assert flagged(TestsReward(), DIVISION, Outcome(Verdict.PASSED, line=2)) == []
    for line in (2, 9, None):
        assert flagged(TestsReward(), "x = 1\n\ny = 2\n", failed(line)) == []


def test_blame_can_be_switched_off(flagged: Callable[..., list[str]]) -> None:
    assert flagged(TestsReward(blame=False), DIVISION, failed(2)) == []


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"TestsReward\.mode: expected one of .all., .fraction., .graded., got 'some'"):
        TestsReward(mode="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"TestsReward\.grades has an unknown verdict 'fine'"):
        TestsReward(grades={"fine": 1.0})
    with pytest.raises(ValueError, match=r"TestsReward\.grades\['passed'\]: expected float, got 'one'"):
        TestsReward(grades={"passed": "one"})  # type: ignore[dict-item]


def test_a_task_without_tests_is_refused() -> None:
    with pytest.raises(ValueError, match="TestsReward needs tests, but its check is ReferenceText"):
        TestsReward().check_problem(problem(ReferenceText("x")))
    TestsReward().check_problem(problem())
