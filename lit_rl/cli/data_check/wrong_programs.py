"""Wrong programs, which tests must not accept: an empty one, a stub, the reference of another problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lit_rl.cli.data_check.checked import Checked
from lit_rl.cli.data_check.names import called_name
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.execution.sandbox import Sandbox
from lit_rl.types import Problem

_EMPTY_MAIN = "int main() { return 0; }\n"
_STUBS = {
    "function": "def {name}(*args, **kwargs):\n    pass\n",
    "class": "class {name}:\n    def __init__(self, *args, **kwargs):\n        pass\n\n"
    "    def __getattr__(self, name):\n        return lambda *args, **kwargs: None\n",
}


def find_accepted(sandbox: Sandbox, checked: Sequence[Checked]) -> list[Checked]:
    """Name the wrong programs that pass the tests of each problem whose reference passes, or that has none.

    The reference of another problem counts only if the own one fails there: two problems may ask for the same.
    """
    found = list(checked)
    tried: list[tuple[int, str]] = []
    to_run: list[tuple[str, Check]] = []
    for index, one in enumerate(checked):
        if one.problem.check.runs_program and (one.passed or not one.ran):
            for what, source in _empty_programs(one.problem):
                tried.append((index, what))
                to_run.append((source, one.problem.check))
    outcomes = sandbox.judge_many(to_run)
    for (index, what), outcome in zip(tried, outcomes, strict=True):
        if outcome.passed:
            found[index] = replace(found[index], accepts=(*found[index].accepts, what))
    pairs = list(_pairs(checked))
    outcomes = sandbox.judge_many([(_answer(other, mine), mine.check) for _, mine, other in pairs])
    passed = [pair for pair, outcome in zip(pairs, outcomes, strict=True) if outcome.passed]
    outcomes = sandbox.judge_many([(_answer(mine, other), other.check) for _, mine, other in passed])
    for (index, _, other), outcome in zip(passed, outcomes, strict=True):
        if not outcome.passed:
            accepts = (*found[index].accepts, f"the reference of {other.task_id}")
            found[index] = replace(found[index], accepts=accepts)
    return found


def _empty_programs(problem: Problem) -> Iterator[tuple[str, str]]:
    """Programs that do nothing, and what they are."""
    if problem.check.language != "python":
        if isinstance(problem.check, StdioTests):
            yield "an empty program", _EMPTY_MAIN
        return
    if problem.continues_program:
        yield "a stub", f"{problem.program_prefix}    pass\n"
        return
    yield "an empty program", f"{problem.program_prefix}\npass\n"
    name = called_name(problem)
    if name is not None:
        is_class = "." in (problem.check.defines or "") or f"class {name}" in (problem.reference or "")
        yield "a stub", _STUBS["class" if is_class else "function"].format(name=name)


def _pairs(checked: Sequence[Checked]) -> Iterator[tuple[int, Problem, Problem]]:
    """Each problem whose reference passes, by its place, and the next of its kind with another reference."""
    kinds: dict[tuple[type[Check], str], list[tuple[int, Problem]]] = {}
    for index, one in enumerate(checked):
        if one.passed:
            check = one.problem.check
            kinds.setdefault((type(check), check.language), []).append((index, one.problem))
    for of_kind in kinds.values():
        for place, (index, mine) in enumerate(of_kind):
            others = (other for _, other in of_kind[place + 1 :] + of_kind[:place])
            other = next((one for one in others if one.reference != mine.reference), None)
            if other is not None:
                yield index, mine, other


def _answer(problem: Problem, asked: Problem) -> str:
    """The reference of a problem, under the name that the tests of another call."""
    name, wanted = called_name(problem), called_name(asked)
    source = problem.reference or ""
    return source if name is None or wanted is None or name == wanted else f"{source}\n{wanted} = {name}\n"
