"""Second turns of the embedded task: demonstrations that repair a program, or fail to.

The prompt of such a problem is a whole first turn: signature and docstring, a wrong body, the public case that it
fails in one line, signature and docstring again. This is what ``Repair(template=REPAIR_TEMPLATE)`` makes of a policy
that wrote the wrong body, so imitation shows a policy what a second turn looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lit_rl.data.basics_cases import answer_of, function_of
from lit_rl.execution.checks import CallTests
from lit_rl.execution.outcome import FailedCase
from lit_rl.execution.wire.value_text import call_text, value_text
from lit_rl.types import Problem

REPAIR_TEMPLATE = "\n# {case}\n{program_prefix}"
END_OF_TURN = "<|endoftext|>"
"""What ends a completion in the task's own tokenizer."""


def second_turn(problem: Problem, attempt: str, program: Callable[[str], str], *, repeats: bool) -> Problem | None:
    """The problem after a failed first turn.

    Args:
        problem: the problem of the first turn, with public cases.
        attempt: the body that was written.
        program: makes the whole function ``f`` from a body.
        repeats: whether the demonstration writes the same body again, feedback or not.

    Returns:
        ``None`` if the attempt passes the public cases.
    """
    public = problem.public_check
    assert isinstance(public, CallTests)
    body = str(problem.reference)[len(problem.program_prefix) : -1]
    function = function_of(program(attempt))
    for number, (arguments, expected) in enumerate(public.cases, 1):
        value, raised = answer_of(function, arguments)
        if raised or repr(value) != repr(expected):
            actual = raised or value_text(value)
            case = FailedCase(number, call_text(public.entry_point, arguments, {}), value_text(expected), actual)
            said = REPAIR_TEMPLATE.format(case=case.line(), program_prefix=problem.program_prefix)
            return replace(
                problem,
                task_id=f"{problem.task_id}/turn_2",
                prompt=f"{problem.prompt}{attempt}{END_OF_TURN}{said}",
                fields={**problem.fields, "demonstration": attempt if repeats else body},
            )
    return None
