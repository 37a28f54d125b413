"""The share of errands that a program does, and the lines that are blamed for those that it does not."""

from __future__ import annotations

import pytest
from support.completions import batch, judged, problem, reward_of

from lit_rl.data import RobotTasks
from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import Sandbox
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import ErrandsReward, SimulatorReward, TermScore
from lit_rl.types import Judgement

PROBLEM = RobotTasks(num_train=1, num_validation=0, num_errands=3, form="completion").problems("train")[0]
RELAY = """\
    go_to("workshop")
    answer = ask("Sven", "What would you like?", ["rye", "wheat"])
    go_to(start)
    say("Sven prefers " + answer)
"""
DELIVER = """\
    go_to("garage")
    if ask("Nadia", "Do you need the umbrella?", ["yes", "no"]) == "yes":
        go_to("gallery")
        pick("umbrella")
        go_to("garage")
        place("umbrella")
    else:
        go_to(start)
        say("The umbrella is not needed")
"""
FETCH = """\
    go_to("studio")
    pick("globe")
    go_to("library")
    place("globe")
"""
HERE = "    start = get_current_location()\n"
WHOLE = HERE + RELAY + DELIVER + FETCH


def judgement(sandbox: Sandbox, text: str) -> Judgement:
    outcome = sandbox.judge_many([(PROBLEM.program_prefix + text, PROBLEM.check)])[0]
    return judged(text, outcome, PROBLEM)


def score(sandbox: Sandbox, text: str) -> TermScore:
    return ErrandsReward().score(batch([text]), [judgement(sandbox, text)])[0]


def blamed(text: str, found: TermScore) -> list[str]:
    return [text.encode()[span.start : span.end].decode() for span in found.spans]


def test_a_program_that_does_all_has_no_places_nor_has_an_errand_that_is_never_named(sandbox: Sandbox) -> None:
    assert PROBLEM.program_prefix + WHOLE == PROBLEM.reference
    assert score(sandbox, WHOLE) == TermScore(1.0)
    assert score(sandbox, HERE + RELAY + DELIVER) == TermScore(pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("errand", "line", "instead"),
    [
        pytest.param(RELAY, "    go_to(start)\n", "", id="first"),
        pytest.param(DELIVER, "        go_to(start)\n", "", id="second, in one of its worlds"),
        pytest.param(FETCH, '    place("globe")\n', "    answer = 3\n", id="last, to the end of the program"),
    ],
)
def test_an_errand_that_is_not_done_is_blamed_on_its_lines(
    sandbox: Sandbox, errand: str, line: str, instead: str
) -> None:
    wrong = errand.replace(line, instead)
    text = WHOLE.replace(errand, wrong)
    found = score(sandbox, text)
    assert found.value == pytest.approx(2 / 3)
    assert [span.value for span in found.spans] == pytest.approx([-1 / 3])
    assert blamed(text, found) == [wrong.strip()]


def test_the_line_where_a_program_broke_off_is_blamed_for_all_that_is_not_done(sandbox: Sandbox) -> None:
    refused = WHOLE.replace('    go_to("workshop")\n', "")
    found = score(sandbox, refused)
    assert (found.value, [span.value for span in found.spans]) == (0.0, [-1.0])
    assert blamed(refused, found) == [RELAY.splitlines()[1].strip()]
    later = WHOLE.replace('    go_to("studio")\n', "")
    found = score(sandbox, later)
    assert [found.value, *(span.value for span in found.spans)] == pytest.approx([2 / 3, -1 / 3])
    assert blamed(later, found) == ['pick("globe")']


def test_no_program_does_nothing_and_a_failed_sandbox_says_nothing() -> None:
    term = ErrandsReward()
    assert term.score(batch([""]), [judged("", Outcome(Verdict.NO_PROGRAM), PROBLEM)]) == [TermScore(0.0)]
    failed = term.score(batch(["x"]), [judged("x", Outcome(Verdict.INFRASTRUCTURE_FAILURE), PROBLEM)])
    assert failed == [TermScore(None, reason="the sandbox failed")]


def test_a_task_of_one_errand_is_refused() -> None:
    one = problem(RobotWorlds((RobotTest({"locations": []}, False, []),)))
    with pytest.raises(ValueError, match=r"needs a task of several errands: set .*num_errands to 2 or more"):
        ErrandsReward().check_problem(one)
    ErrandsReward().check_problem(PROBLEM)
    unknown = ErrandsReward().score(batch(["x"]), [judged("x", Outcome(Verdict.PASSED), one)])[0]
    assert unknown == TermScore(None, reason="the problem has no errands")


PROGRAM = "def task_program():\n    go_to('küche')\n    pick('Öl')\n"


def ended(robot_verdict: str | None, verdict: Verdict = Verdict.EXCEPTION, line: int | None = None) -> Outcome:
    return Outcome(verdict, robot_verdict=robot_verdict, line=line, scores={"conjuncts": 0.75})


def test_grades_rise_along_the_taxonomy() -> None:
    verdicts = ["python_error", "robot_execution_error", "completion_error", "success"]
    values = [reward_of(SimulatorReward(), PROGRAM, ended(verdict)).rewards.item() for verdict in verdicts]
    assert values == pytest.approx([0.0, 0.3, 0.6, 1.0])
    no_program = SimulatorReward(grades={"python_error": -1.0})
    assert reward_of(no_program, "", Outcome(Verdict.NO_PROGRAM)).rewards.tolist() == [-1.0]
    conjuncts = SimulatorReward(mode="conjuncts")
    assert reward_of(conjuncts, PROGRAM, ended("completion_error")).rewards.tolist() == [0.75]
    assert reward_of(conjuncts, PROGRAM, Outcome(Verdict.SYNTAX_ERROR)).rewards.tolist() == [0.0]
    assert not reward_of(SimulatorReward(), PROGRAM, Outcome(Verdict.INFRASTRUCTURE_FAILURE)).valid.item(), "no zero"
