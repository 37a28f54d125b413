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

from collections.abc import Callable, Sequence
from typing import Any

from lit_rl.data.robots.service_robot import EVENTS, compile_search_pattern

KINDS = tuple(EVENTS.values())

# By name: whether the first match counts, and whether the part after that match is meant.
_CUTS = {
    "after_first": (True, True),
    "before_first": (True, False),
    "after_last": (False, True),
    "before_last": (False, False),
}
_Trace = Sequence[Sequence[Any]]


def check_holds(check: Any, trace: _Trace) -> bool:
    """Return whether the check is true of the trace.

    Example:
        >>> trace = [["GoTo", "kitchen", None], ["Say", "dinner is ready", None]]
        >>> check_holds(["act_at_first", "trace", "kitchen", ["Say", "ready"]], trace)
        True
        >>> check_holds(["exists", ["after_first", "trace", ["GoTo", "cellar"]], ["Say", "ready"]], trace)
        True
    """
    return compile_formula(check)(trace)


def compile_formula(check: Any) -> Callable[[_Trace], bool]:
    """Turn a formula into a function of a trace; LookupError, TypeError, ValueError or ``re.error`` if invalid."""
    if isinstance(check, bool):
        return lambda trace: check
    operator, arguments = check[0], check[1:]
    if operator in ("and", "or"):
        parts, joined = [compile_formula(part) for part in arguments], all if operator == "and" else any
        return lambda trace: joined(part(trace) for part in parts)
    if operator == "not":
        (inner,) = map(compile_formula, arguments)
        return lambda trace: not inner(trace)
    if operator == "exists":
        term, event = arguments
        part, matches = _compile_trace_part(term), _compile_event(event)
        return lambda trace: any(map(matches, part(trace)))
    if operator == "precedes":
        term, first, second = arguments
        return compile_formula(["exists", ["after_first", term, first], second])
    if operator == "act_at_first":
        # Between the first GoTo(place) and the next GoTo elsewhere.
        term, place, event = arguments
        visit = ["before_first", ["after_first", term, ["GoTo", place]], _departure_pattern(place)]
        return compile_formula(["and", ["exists", term, ["GoTo", place]], ["exists", visit, event]])
    if operator == "act_at_any_visit":
        term, place, event = arguments
        part, arrives, leaves, acts = (
            _compile_trace_part(term),
            _compile_event(["GoTo", place]),
            _compile_event(_departure_pattern(place)),
            _compile_event(event),
        )
        return lambda trace: _acts_at_any_visit(part(trace), arrives, leaves, acts)
    raise ValueError(f"a check begins with {operator!r}, which is no known operator")


_Matches = Callable[[Sequence[Any]], bool]


def _acts_at_any_visit(trace: _Trace, arrives: _Matches, leaves: _Matches, acts: _Matches) -> bool:
    """Return whether an act belongs to any visit to a place; ``act_at_first`` considers only the first visit.

    The trace is read in one pass, since a program may come and go thousands of times.
    """
    inside = False
    for element in trace:
        if inside and leaves(element):
            inside = False
        elif inside and acts(element):
            return True
        # A text such as "hallway" both leaves the hall and arrives there, since it matches both patterns.
        inside = inside or arrives(element)
    return False


def _departure_pattern(place: str) -> list[str]:
    """Return the pattern of going elsewhere: to a text that does not contain the place as a word."""
    return ["GoTo", rf"^(?!.*\b{place}\b).*$"]


def _compile_trace_part(term: Any) -> Callable[[_Trace], _Trace]:
    """Return a function from a trace to its part strictly before or after a match, or to all if nothing matches."""
    if term == "trace":
        return lambda trace: trace
    name, inner, event = term
    of_first, is_after = _CUTS[name]
    part, matches = _compile_trace_part(inner), _compile_event(event)

    def cut(trace: _Trace) -> _Trace:
        trace = part(trace)
        indices = range(len(trace))
        for index in indices if of_first else reversed(indices):
            if matches(trace[index]):
                return trace[index + 1 :] if is_after else trace[:index]
        return trace

    return cut


def _compile_event(event: Any) -> _Matches:
    """Return the function that says whether an element of a trace matches an event pattern."""
    if len(event) not in (2, 3) or event[0] not in KINDS:
        raise ValueError(f"an event is [kind, pattern] or ['Ask', pattern, option_pattern], got {event!r}")
    text, *option = map(compile_search_pattern, event[1:])

    def matches(element: Sequence[Any]) -> bool:
        kind, value1, value2 = element
        if kind != event[0] or text.search(value1) is None:
            return False
        return not option or any(option[0].search(given) for given in value2)

    return matches
