"""Conditions on a robot's trace: a small temporal logic over events, as JSON lists.

Events    ``[kind, pattern]`` or ``["Ask", pattern, pattern_of_an_option]``
Traces    ``"trace"``, ``["after_first", T, E]``, ``["before_first", T, E]``, ``["after_last", T, E]``,
          ``["before_last", T, E]``: the part strictly after or before an element of T that matches E. **If
          nothing matches, the part is T itself**, not an empty trace; most checks rely on it.
Formulas  ``true``, ``["and", ...]``, ``["or", ...]``, ``["not", F]``, ``["exists", T, E]``,
          ``["precedes", T, A, B]``, ``["act_at_first", T, place, E]``, ``["act_at_any_visit", T, place, E]``

Source:
    RoboEval temporal logic: Hu et al. 2024, https://arxiv.org/abs/2311.11183
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lit_rl.data.robots.service_robot import compile_search

KINDS = ("CheckEntity", "GoTo", "Ask", "Say", "Pick", "Place")

_CUTS = {"after_first", "before_first", "after_last", "before_last"}
_ARGUMENTS = {
    "not": ("formula",),
    "exists": ("term", "event"),
    "precedes": ("term", "event", "event"),
    "act_at_first": ("term", "place", "event"),
    "act_at_any_visit": ("term", "place", "event"),
    **dict.fromkeys(_CUTS, ("term", "event")),
}
_Trace = Sequence[Sequence[Any]]


class CheckError(ValueError):
    """The check itself is malformed: a fault of the task, not of the program."""


def holds(check: Any, trace: _Trace) -> bool:
    """Return whether the check is true of the trace.

    Args:
        check: a formula.
        trace: ``[kind, value1, value2]`` events in order.

    Raises:
        CheckError: the check is malformed.
        TypeError: the trace holds an option that is not a string and a pattern is looked for in it.

    Example:
        >>> trace = [["GoTo", "kitchen", None], ["Say", "dinner is ready", None]]
        >>> holds(["act_at_first", "trace", "kitchen", ["Say", "ready"]], trace)
        True
        >>> holds(["exists", ["after_first", "trace", ["GoTo", "cellar"]], ["Say", "ready"]], trace)
        True
    """
    if isinstance(check, bool):
        return check
    operator, arguments = _head(check)
    if operator == "and":
        return all(holds(part, trace) for part in arguments)
    if operator == "or":
        return any(holds(part, trace) for part in arguments)
    if operator == "not":
        (part,) = _exactly(1, check)
        return not holds(part, trace)
    if operator == "exists":
        term, event = _exactly(2, check)
        return exists(part_of(term, trace), event)
    if operator == "precedes":
        term, first, second = _exactly(3, check)
        return exists(cut("after_first", part_of(term, trace), first), second)
    if operator in ("act_at_first", "act_at_any_visit"):
        term, place, event = _exactly(3, check)
        act = act_at_first if operator == "act_at_first" else act_at_any_visit
        return act(part_of(term, trace), place, event)
    raise CheckError(f"no such formula: {check!r}")


def conjuncts(check: Any) -> list[Any]:
    """The parts that must all be true: the top-level ``and``, flattened.

    Example:
        >>> conjuncts(["and", ["and", True, False], ["or", True]])
        [True, False, ['or', True]]
    """
    if isinstance(check, (list, tuple)) and len(check) > 0 and check[0] == "and":
        return [part for argument in check[1:] for part in conjuncts(argument)]
    return [check]


def fraction_of_conjuncts(check: Any, trace: _Trace) -> float:
    """Share of the conjuncts that are true of the trace, in [0, 1]; one that cannot be evaluated is not.

    Example:
        >>> fraction_of_conjuncts(["and", ["exists", "trace", ["Say", "hi"]], True], [])
        0.5
    """
    parts = conjuncts(check)
    if not parts:
        return 1.0
    return sum(holds_or_false(part, trace) for part in parts) / len(parts)


def holds_or_false(check: Any, trace: _Trace) -> bool:
    """Return whether a formula holds; False if it reads options, and the program offered some that are not text."""
    try:
        return holds(check, trace)
    except TypeError:
        return False


def part_of(term: Any, trace: _Trace) -> _Trace:
    """The part of the trace that a trace term names."""
    if term == "trace":
        return trace
    operator, _ = _head(term)
    if operator not in _CUTS:
        raise CheckError(f"no such part of a trace: {term!r}")
    inner, event = _exactly(2, term)
    return cut(operator, part_of(inner, trace), event)


def cut(operator: str, trace: _Trace, event: Any) -> _Trace:
    """The part strictly before or after the first or last match; the whole trace if nothing matches."""
    indices = range(len(trace)) if operator.endswith("first") else range(len(trace) - 1, -1, -1)
    for index in indices:
        if event_matches(event, trace[index]):
            return trace[index + 1 :] if operator.startswith("after") else trace[:index]
    return trace


def exists(trace: _Trace, event: Any) -> bool:
    """Return whether some element of the trace matches the event pattern."""
    return any(event_matches(event, element) for element in trace)


def act_at_first(trace: _Trace, place: str, event: Any) -> bool:
    """Return whether the event happens between the first GoTo(place) and the next GoTo elsewhere.

    Elsewhere is a GoTo whose text does not contain ``place`` as a word.
    """
    arrival = ["GoTo", place]
    visit = cut("before_first", cut("after_first", trace, arrival), _departure(place))
    return exists(trace, arrival) and exists(visit, event)


def act_at_any_visit(trace: _Trace, place: str, event: Any) -> bool:
    """As :func:`act_at_first`, of the trace or of what is left after the first, second, ... GoTo(place).

    That is: of any visit. One pass, as a program may come and go thousands of times.
    """
    arrival, departure = ["GoTo", place], _departure(place)
    inside = False
    for element in trace:
        if inside and event_matches(departure, element):
            inside = False
        elif inside and event_matches(event, element):
            return True
        # A text such as "hallway" leaves the hall and arrives at it, for it matches both patterns.
        if event_matches(arrival, element):
            inside = True
    return False


def _departure(place: str) -> list[str]:
    return ["GoTo", rf"^(?!.*\b{place}\b).*$"]


def event_matches(event: Any, element: Sequence[Any]) -> bool:
    """Return whether one element of a trace matches an event pattern."""
    if not isinstance(event, (list, tuple)) or len(event) not in (2, 3) or event[0] not in KINDS:
        raise CheckError(f"an event is [kind, pattern] or ['Ask', pattern, option_pattern], got {event!r}")
    kind, value1, value2 = element
    if kind != event[0] or _compiled(event[1]).search(value1) is None:
        return False
    if len(event) == 2 or event[2] is None:
        return True
    option_pattern = _compiled(event[2])
    return any(option_pattern.search(option) for option in value2)


def validate(check: Any) -> None:
    """Refuse a malformed check, in every part of it.

    Raises:
        CheckError: naming the part.
    """
    if isinstance(check, bool):
        return
    operator, arguments = _head(check)
    if operator in ("and", "or"):
        for part in arguments:
            validate(part)
    elif operator in _ARGUMENTS and operator not in _CUTS:
        _validate_arguments(check)
    else:
        raise CheckError(f"no such formula: {check!r}")


def _validate_arguments(expression: Sequence[Any]) -> None:
    roles = _ARGUMENTS[expression[0]]
    for role, argument in zip(roles, _exactly(len(roles), expression), strict=True):
        if role == "formula":
            validate(argument)
        elif role == "term" and argument != "trace":
            part_of(argument, ())
            _validate_arguments(argument)
        elif role == "event":
            event_matches(argument, ("", "", None))
            for pattern in argument[1:]:
                _compiled(pattern)
        elif role == "place":
            _compiled(argument)


def _head(check: Any) -> tuple[str, Sequence[Any]]:
    if not isinstance(check, (list, tuple)) or not check or not isinstance(check[0], str):
        raise CheckError(f"a formula is true, false or a list that begins with its name, got {check!r}")
    return check[0], check[1:]


def _exactly(count: int, check: Sequence[Any]) -> Sequence[Any]:
    if len(check) != count + 1:
        raise CheckError(f"{check[0]!r} takes {count} arguments, got {len(check) - 1}: {check!r}")
    return check[1:]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_search(pattern)
    except (re.error, TypeError) as error:
        raise CheckError(f"not a pattern: {pattern!r}: {error}") from error
