"""Terms that run programs: what was lost lies on the line that failed, the rest evenly on the program.

Every program is run in the sandbox; verdict and line are its own. The marks are explained in
:mod:`tests.rewards.marked`.
"""

from typing import Any

import pytest
from support.completions import problem
from support.marked_completions import check_credit, judge_marked, read_marked

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution.checks import AssertTests, CallTests, Check, StdioTests
from lit_rl.execution.interface import Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rewards import SimulatorReward, TestsReward
from lit_rl.rewards.program_tests import GRADES

DOUBLE = AssertTests("assert f(2) == 4\nassert f(3) == 6", timeout_seconds=1.0)
CALLS = CallTests((((2,), 4),), "f", timeout_seconds=1.0)
STDIN = StdioTests((("2\n", "4\n"),), timeout_seconds=1.0)
PASSED, WRONG, RAISED = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.EXCEPTION
BROKEN, LATE, NOTHING = Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT, Verdict.NO_PROGRAM

TESTED: dict[str, tuple[str, Verdict, Check]] = {
    "right": ("```python\n⟦def f(x):\n    return 2 * x\n⟧```␄", PASSED, DOUBLE),
    "wrong": ("Sure:\n```python\n⟦def f(x):\n    return x\n⟧```␄", WRONG, DOUBLE),
    "fenced": ("```python\n⟦def f(x):\n    ⟪y = x / 0⟫\n    return y\n⟧```␄", RAISED, DOUBLE),
    "carriage returns": ("⟦def f(x):\r\n    ⟪día = x / 0⟫\r\n    return día\r\n⟧␄", RAISED, DOUBLE),
    "old line ends": ("⟦def f(x):\r    y = 1\r    ⟪return x / 0⟫\r⟧␄", RAISED, DOUBLE),
    "a face, then blanks": ("⟦def f(x):\n    ⟪return '😀文'[9]⟫  \n⟧␄", RAISED, DOUBLE),
    "a tab of the same token": ("⟦def f(x):\n⟪\treturn x / 0⟫\n⟧␄", RAISED, DOUBLE),
    "combining characters": ("⟦def f(x):\n    n̈ = 0\n    ⟪return x / n̈  # x̂⟫\n⟧␄", RAISED, DOUBLE),
    "a character of three tokens": ("```\n⟦def f(x):\n    ⟪return x[0]  # 鬱⟫\n⟧```\n鬱␄", RAISED, DOUBLE),
    "a helper": ("⟦def g(x):\n    ⟪raise ValueError('é')⟫\n\ndef f(x):\n    return g(x)\n⟧␄", RAISED, DOUBLE),
    "the innermost line of one expression": ("⟦def f(x):\n    return (x +\n        ⟪(1 / 0))⟫\n⟧␄", RAISED, DOUBLE),
    "outside functions": ("⟦import math\n⟪limit = undefined⟫\ndef f(x):\n    return 2 * x\n⟧␄", RAISED, DOUBLE),
    "another function": ("😀\n```\n⟦def g(x):\n    return 2 * x\n⟧```␄", RAISED, DOUBLE),
    "two blocks": ("```\ndef f(x):\n    return 1 / 0\n```\n```\n⟦def f(x):\n    ⟪return 0 / 0⟫\n⟧```␄", RAISED, DOUBLE),
    "an open bracket": ("```python\n⟦def f(x):\n    ⟪return (2 * x⟫\n⟧```␄", BROKEN, DOUBLE),
    "a wide sign": ("⟦def f(x):\n    ⟪return 2 × x⟫\n⟧␄", BROKEN, DOUBLE),
    "talk": ("⟦⟪I cannot do that. 🙏⟫⟧␄", BROKEN, DOUBLE),
    "cut inside a line": ("```python\n⟦def f(x):\n    ⟪return 2 *⟫⟧", BROKEN, DOUBLE),
    "cut inside a character": ("⟦def f(x):\n    return 2 * x  # 鬱⟧␡", PASSED, DOUBLE),
    "no end": ("```\n⟦def f(x):\n    while True: pass  # 😀\n⟧```␄", LATE, DOUBLE),
    "nothing": ("⟦␄⟧", NOTHING, DOUBLE),
    "a blank block": ("⟦Voilà, 文:\r\n```python\r\n```␄⟧", NOTHING, DOUBLE),
    "called": ("Here:\r\n```\r\n⟦def f(x):\r\n    ⟪return {}['é']⟫\r\n⟧```␄", RAISED, CALLS),
    "stdin": ("```\n⟦n = int(input())\n⟪print(n // 0)  # 😀⟫\n⟧```␄", RAISED, STDIN),
}


@pytest.mark.parametrize(("source", "verdict", "check"), TESTED.values(), ids=TESTED)
def test_the_failing_line_pays_for_the_tests(
    qwen: Any, sandbox: Sandbox, source: str, verdict: Verdict, check: Check
) -> None:
    marked = read_marked(qwen, source)
    judgement = judge_marked(marked, problem(check), sandbox)
    assert judgement.outcome.verdict is verdict, judgement.outcome
    lost = GRADES[verdict] - GRADES[PASSED] if marked.blamed else 0.0
    check_credit(TestsReward(mode="graded"), marked, judgement, GRADES[verdict], lost)


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
SAY_HI = RobotWorlds((RobotTest(STATE, False, ["exists", "trace", ["Say", "hi"]]),), timeout_seconds=0.5)
SUCCESS, INCOMPLETE, REFUSED, PYTHON = "success", "completion_error", "robot_execution_error", "python_error"
ROBOT_GRADES = {PYTHON: -0.5, REFUSED: 0.3, INCOMPLETE: 0.6, SUCCESS: 1.0}
HEAD = "def task_program():\n"
FENCED = f"```python\n⟦{HEAD}"

SIMULATED: dict[str, tuple[str, str]] = {
    "done": (f"{FENCED}    say('hi')\n⟧```␄", SUCCESS),
    "not done": (f"{FENCED}    go_to('hall')\n⟧```␄", INCOMPLETE),
    "no such room": (f"{FENCED}    say('hi')\n    ⟪go_to('küche')⟫\n    say('文')\n⟧```␄", REFUSED),
    "carriage returns": (f"⟦{HEAD}    ⟪go_to('moon')⟫\n⟧␄".replace("\n", "\r\n"), REFUSED),
    "a face": (f"⟦{HEAD}    go_to('kitchen')\n    ⟪pick('😀')⟫\n⟧␄", REFUSED),
    "combining characters": (f"⟦{HEAD}    n̈ = 'x̂'\n    ⟪pick(n̈)  # x̂⟫\n⟧␄", REFUSED),
    "a character of three tokens": (f"Gut, 鬱:\n{FENCED}    ⟪place('鬱')⟫\n⟧```\n鬱␄", REFUSED),
    "capitals that become small": (f'⟦{HEAD}    x = "ÄÖ"\n    ⟪go_to("KÜCHE")⟫\n⟧␄', REFUSED),
    "a number is said": (f"⟦{HEAD}    ⟪say(3)⟫  \n    say('hi')\n⟧␄", REFUSED),
    "nobody to ask": (f"⟦{HEAD}    ⟪if ask('Ann', '?', ['yes']): say('hi')⟫\n⟧␄", REFUSED),
    "inside a function": (f"⟦{HEAD}    def go(where):\n        ⟪go_to(where)⟫\n    go('moon')\n⟧␄", REFUSED),
    "no definition": ("⟦    say('hi')\n    ⟪go_to('moon')⟫\n    say('é')⟧␄", REFUSED),
    "talk behind the program": (f"⟦{HEAD}    ⟪go_to('mars')⟫\n\nThat is all, señor.⟧␄", REFUSED),
    "the first of two blocks": (f"É:\n{FENCED}    ⟪pick('é')⟫\n⟧```\n```python\n{HEAD}    say('hi')\n```␄", REFUSED),
    "a Python block after another": (f"```sh\nls é\n```\n{FENCED}    ⟪pick('é')⟫\n⟧```␄", REFUSED),
    "an exception": (f"{FENCED}    say('hi')\n    ⟪día = 1 / 0⟫\n⟧```␄", PYTHON),
    "an argument too few": (f"⟦{HEAD}    say('é')\n    ⟪go_to()⟫\n⟧␄", PYTHON),
    "broken": (f"{FENCED}    ⟪say('hi' 'é'⟫\n⟧```␄", PYTHON),
    "cut inside a call": (f"{FENCED}    say('hi')\n    ⟪go_to('kitch⟫⟧", PYTHON),
    "cut inside a character": (f"⟦{HEAD}    say('hi')  # 鬱⟧␡", SUCCESS),
    "waits for ever": (f"⟦{HEAD}    say('hi')\n    while True: pass  # 😀\n⟧␄", PYTHON),
    "nothing": ("⟦␄⟧", PYTHON),
    "a blank block": ("⟦Voilà, 文:\r\n```python\r\n```␄⟧", PYTHON),
}


@pytest.mark.parametrize(("source", "verdict"), SIMULATED.values(), ids=SIMULATED)
def test_the_refused_call_pays_for_the_task(qwen: Any, sandbox: Sandbox, source: str, verdict: str) -> None:
    marked = read_marked(qwen, source)
    judgement = judge_marked(marked, problem(SAY_HI), sandbox)
    assert (judgement.outcome.robot_verdict or PYTHON) == verdict, judgement.outcome
    lost = ROBOT_GRADES[verdict] - ROBOT_GRADES[SUCCESS] if marked.blamed else 0.0
    check_credit(SimulatorReward(grades={PYTHON: -0.5}), marked, judgement, ROBOT_GRADES[verdict], lost)


def test_a_robots_program_goes_on_from_its_first_line(qwen: Any, sandbox: Sandbox) -> None:
    marked = read_marked(qwen, "⟦    say('hi')\n    ⟪go_to('löss')⟫⟧␄")
    judgement = judge_marked(marked, problem(SAY_HI, program_prefix=HEAD), sandbox)
    check_credit(SimulatorReward(), marked, judgement, 0.3, -0.7)
