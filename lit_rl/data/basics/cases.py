"""Test cases of the embedded task's problems: drawn, checked against the bug, divided into public and hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from lit_rl.data.basics.families import NUM_CASES, Arguments

Case = tuple[Arguments, Any]

# Half of the cases stay hidden: fewer would let wrong programs pass.
MAX_PUBLIC_CASES = NUM_CASES // 2


def divided_cases(
    draw_inputs: Callable[[], list[Arguments]],
    reference: str,
    buggy: str,
    num_public: int,
    told: str | None = None,
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Public and hidden cases of a problem.

    Args:
        draw_inputs: draws arguments of calls; called again if they do not tell the two programs apart.
        reference: the right program, our own source.
        buggy: the same with the bug.
        num_public: how many cases are public, at most :data:`MAX_PUBLIC_CASES`.
        told: ``repr`` of an answer that the first public case must have; ``None`` if any will do.

    Returns:
        ``None`` if no inputs of 100 draws tell the bug from the reference.
    """
    right, wrong = function_of(reference), function_of(buggy)
    for _ in range(100):
        inputs = draw_inputs()[:NUM_CASES]
        cases = tuple((arguments, right(*arguments)) for arguments in inputs)
        shows_bug = [_differs(wrong, *case) for case in cases]
        if parts := _divide(cases, shows_bug, num_public, told):
            return parts
    return None


def _divide(
    cases: tuple[Case, ...], shows_bug: Sequence[bool], num_public: int, told: str | None
) -> tuple[tuple[Case, ...], tuple[Case, ...]] | None:
    """Public and hidden cases, none in both; the bug shows in the public ones too, where that is possible.

    Returns:
        ``None`` if no division leaves hidden cases on which the bug shows and no constant answer passes.
    """
    arguments, answers = [repr(given) for given, _ in cases], [repr(expected) for _, expected in cases]
    distinct = [index for index in range(len(cases)) if arguments.index(arguments[index]) == index]
    found = None
    if told is not None:
        # The shortest call first: feedback has to fit together with prompt and program.
        distinct.sort(key=lambda index: (answers[index] != told, len(arguments[index]) * (answers[index] == told)))
    for public in combinations(distinct, num_public):
        if told is not None and answers[public[0]] != told:
            break
        shown = {arguments[index] for index in public}
        hidden = [index for index in range(len(cases)) if arguments[index] not in shown]
        if len({answers[index] for index in hidden}) > 1 and any(shows_bug[index] for index in hidden):
            found = found or (public, hidden)
            if any(shows_bug[index] for index in public):
                found = public, hidden
                break
    if found is None:
        return None
    return tuple(cases[index] for index in found[0]), tuple(cases[index] for index in found[1])


def function_of(source: str) -> Callable[..., Any]:
    """The function ``f`` of one of our own programs."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def answer_of(function: Callable[..., Any], arguments: Arguments) -> tuple[Any, str]:
    """Return a function's result, and the name of its exception if it raises one."""
    try:
        return function(*arguments), ""
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return None, type(error).__name__


def _differs(function: Callable[..., Any], arguments: Arguments, expected: Any) -> bool:
    answer, raised = answer_of(function, arguments)
    return bool(raised) or repr(answer) != repr(expected)
