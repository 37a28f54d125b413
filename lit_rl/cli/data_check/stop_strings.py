"""Stop strings that end a right answer too early."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.cli.data_check.checked import Checked, judged
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout.records import find_program, reference_answer
from lit_rl.types import Problem


def find_cuts(sandbox: Sandbox, checked: Sequence[Checked]) -> None:
    """Name the stop string of each problem after which an answer that passes would no longer pass.

    Answers are the reference, as the prompt asks for it, and the demonstration. A stop string after which the program
    is complete, such as a closing fence, is right where it is.
    """
    # A demonstration may be wrong on purpose, so that it counts only if it passes as a whole.
    whole = [
        ((one, left, string), whole, one.problem.check)
        for one in checked
        for whole, left, string in _cut_answers(one.problem)
    ]
    cut = [
        ((one, string), left, one.problem.check)
        for (one, left, string), outcome in judged(sandbox, whole)
        if outcome.passed
    ]
    for (one, string), outcome in judged(sandbox, cut):
        if not outcome.passed:
            one.cut_by = string


def answers(problem: Problem) -> list[str]:
    """Completions that answer a problem: its reference in the form that the prompt asks for, and its demonstration."""
    found = []
    if problem.reference is not None:
        found.append(reference_answer(problem))
    if "demonstration" in problem.fields:
        found.append(str(problem.fields["demonstration"]))
    return found


def _cut_answers(problem: Problem) -> list[tuple[str, str, str]]:
    """(program of an answer, program of what a stop string leaves of it, stop string) where the two differ."""
    if not problem.check.runs_program or not problem.stop_strings:
        return []
    found = []
    for text in answers(problem):
        places = [(text.find(string), string) for string in problem.stop_strings if string in text]
        if not places:
            continue
        at, string = min(places)
        whole, left = (_source(problem, one) for one in (text, text[:at]))
        if whole.strip() != left.strip():
            found.append((whole, left, string))
    return found


def _source(problem: Problem, text: str) -> str:
    program = find_program(problem, text)
    return program.source if program else ""
