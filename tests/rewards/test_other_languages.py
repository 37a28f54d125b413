"""Terms that parse programs read Python."""

from __future__ import annotations

import pytest
from support.completions import batch, judged, problem

from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.rewards import DataflowReward, LintReward, RewardTerm, SyntaxReward

CPP = "int main() { return 0; }\n"
LINES = BuildAndRun("tree", "src/step.cpp", 3, 4)
STDIO = StdioTests((("", ""),), language="cpp")

UNREAD: dict[str, tuple[RewardTerm, Check]] = {
    "syntax of lines": (SyntaxReward(), LINES),
    "lint of lines": (LintReward(), LINES),
    "data flow of lines": (DataflowReward(), LINES),
    "lint of C++": (LintReward(), STDIO),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_program_in_another_language_has_no_value_and_is_not_trained_on(case: str) -> None:
    """Lines of C++ are no Python: read as such, each completion would cost -1 whatever it says."""
    term, check = UNREAD[case]
    task = problem(check, reference=CPP)
    with pytest.raises(ValueError, match=type(term).__name__):
        term.check_problem(task)
    python = problem(reference="x = 1\n")
    rows = [judged(CPP, problem=task), judged("x = 1\n", problem=python)]
    unread, read = term.score(batch([CPP, "x = 1\n"]), rows)
    assert unread.value is None and "cpp" in unread.reason
    assert read.value is not None
