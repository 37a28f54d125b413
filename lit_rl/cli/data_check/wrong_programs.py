"""Wrong programs, which tests must not accept: an empty one, stubs, the reference of another problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lit_rl.cli.data_check.checked import Checked, judged
from lit_rl.cli.data_check.names import called_name
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout.records import reference_program
from lit_rl.types import Problem

_EMPTY_MAIN = "int main() { return 0; }\n"
# What tests expect most often; an exception may be all of these.
_RAISES = "raise type('Wrong', (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, RuntimeError), {})"
_STUBS = {
    "function": "def {name}(*args, **kwargs):\n    {body}\n",
    "class": "class {name}:\n    def __init__(self, *args, **kwargs):\n        pass\n\n"
    "    def __getattr__(self, name):\n        def method(*args, **kwargs):\n            {body}\n"
    "        return method\n",
}
_BODIES = {"a stub": "pass", "a stub that raises": _RAISES}


def find_accepted(sandbox: Sandbox, checked: Sequence[Checked]) -> None:
    """Name the wrong programs that pass the tests of each problem whose reference passes, or that has none.

    The reference of another problem counts only if the own one fails there: two problems may ask for the same.
    """
    idle = [
        ((one, what), source, one.problem.check)
        for one in checked
        if one.problem.check.runs_program and (one.passed or not one.ran)
        for what, source in _empty_programs(one.problem)
    ]
    for (one, what), outcome in judged(sandbox, idle):
        if outcome.passed:
            one.accepts.append(what)
    swapped = [((one, other), _answer(other, one.problem), one.problem.check) for one, other in _pairs(checked)]
    back = [
        ((one, other), _answer(one.problem, other), other.check)
        for (one, other), outcome in judged(sandbox, swapped)
        if outcome.passed
    ]
    for (one, other), outcome in judged(sandbox, back):
        if not outcome.passed:
            one.accepts.append(f"the reference of {other.task_id}")


def _empty_programs(problem: Problem) -> Iterator[tuple[str, str]]:
    """Programs that do nothing, and what they are."""
    if problem.check.language != "python":
        if isinstance(problem.check, StdioTests):
            yield "an empty program", _EMPTY_MAIN
        return
    if problem.continues_program:
        for what, body in _BODIES.items():
            yield what, f"{problem.program_prefix}    {body}\n"
        return
    yield "an empty program", f"{problem.program_prefix}\npass\n"
    name = called_name(problem)
    if name is not None:
        is_class = "." in (problem.check.defines or "") or f"class {name}" in (problem.reference or "")
        for what, body in _BODIES.items():
            yield what, _STUBS["class" if is_class else "function"].format(name=name, body=body)


def _pairs(checked: Sequence[Checked]) -> Iterator[tuple[Checked, Problem]]:
    """Each problem whose reference passes, and the next of its kind with another reference."""
    kinds: dict[tuple[type[Check], str], list[Checked]] = {}
    for one in checked:
        if one.passed:
            kinds.setdefault((type(one.problem.check), one.problem.check.language), []).append(one)
    for of_kind in kinds.values():
        for place, one in enumerate(of_kind):
            others = (other.problem for other in of_kind[place + 1 :] + of_kind[:place])
            other = next((other for other in others if other.reference != one.problem.reference), None)
            if other is not None:
                yield one, other


def _answer(problem: Problem, asked: Problem) -> str:
    """The reference of a problem, under the name that the tests of another call."""
    name, wanted = called_name(problem), called_name(asked)
    source = reference_program(problem) or ""
    return source if name is None or wanted is None or name == wanted else f"{source}\n{wanted} = {name}\n"
