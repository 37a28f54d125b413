"""The reference as an answer: what SFT imitates and check-data cuts, in which the judge finds the reference again."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lit_rl.data import Basics, RobotTasks
from lit_rl.execution import AssertTests, CallTests, StdioTests
from lit_rl.execution.checks import ReferenceText
from lit_rl.modules.sft import demonstration
from lit_rl.rollout import find_program, reference_answer
from lit_rl.types import Problem

CASES = (("", "1\n"),)
CPP = '#include <cstdio>\n\nint main() {\n    std::puts("1");\n}\n'
C = '#include <stdio.h>\n\nint main(void) {\n    return puts("1") < 0;\n}\n'
PYTHON = 'def f(x):\n    """A fence inside:\n    ```\n    f(1)\n    ```\n    """\n    return x + 1\n'
CHAT: Any = ({"role": "user", "content": "Write it."},)
BODY = "    return x + 1\n"
HEAD = "def f(x):\n"
PROBLEMS = {
    "C++": Problem("1", CHAT, StdioTests(CASES, "cpp"), reference=CPP),
    "C": Problem("1", CHAT, StdioTests(CASES, "c"), reference=C),
    "Python with a fence in its docstring": Problem("1", CHAT, CallTests((((1,), 2),), "f"), reference=PYTHON),
    "Python behind imports": Problem(
        "1",
        CHAT,
        AssertTests("assert f(1) == 2"),
        program_prefix="import math\n",
        reference=f"import math\n{HEAD}{BODY}",
    ),
    "a body": Problem("1", HEAD, CallTests((((1,), 2),), "f"), program_prefix=HEAD, reference=HEAD + BODY),
    "lines inside a fence that the prompt opened": Problem(
        "1", "```python\n", CallTests((((1,), 2),), "f"), reference=HEAD + BODY, stop_strings=("```",)
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_judge_finds_the_reference_in_the_answer_that_sft_imitates(name: str) -> None:
    problem = PROBLEMS[name]
    assert problem.reference is not None
    answer = demonstration(problem)
    found = find_program(problem, answer)
    assert found is not None
    assert found.source.strip("\n") == problem.reference.strip("\n")


def test_a_block_has_the_tag_of_its_language() -> None:
    begins = {name: demonstration(problem).split("\n")[0] for name, problem in PROBLEMS.items()}
    assert begins == {
        "C++": "```cpp",
        "C": "```c",
        "Python with a fence in its docstring": "```python",
        "Python behind imports": "```python",
        "a body": "    return x + 1",
        "lines inside a fence that the prompt opened": "def f(x):",
    }


def test_what_only_reward_terms_read_is_plain_text() -> None:
    for check in (ReferenceText("a b\n"), ReferenceText("x = 1\n", "python")):
        assert demonstration(Problem("1", "Say it.", check, reference=check.text)) == check.text


@pytest.mark.parametrize(
    "task", [Basics(form="completion"), Basics(form="instruct"), RobotTasks()], ids=["completion", "instruct", "robots"]
)
def test_tasks_find_their_references(task: Any) -> None:
    for problem in task.problems("validation")[:20]:
        without = dataclasses.replace(problem, fields={k: v for k, v in problem.fields.items() if k != "demonstration"})
        found = find_program(problem, reference_answer(without))
        assert found is not None and found.source.strip("\n") == str(problem.reference).strip("\n")
