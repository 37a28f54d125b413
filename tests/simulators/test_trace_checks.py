from __future__ import annotations

import re

import pytest
from hypothesis import strategies as st
from support.few_examples import given

from lit_rl.data.robots.trace_checks import (
    _compile_trace_part,
    check_holds,
    compile_formula,
)

KINDS = ["GoTo", "Say", "Pick", "Place", "CheckEntity"]
WORDS = ["hall", "kitchen", "cup", "hello world"]
EVENTS = st.tuples(st.sampled_from(KINDS), st.sampled_from(WORDS)).map(lambda pair: [*pair, None])
TRACES = st.lists(EVENTS, max_size=8)
PATTERNS = st.tuples(st.sampled_from(KINDS), st.sampled_from(["hall", "kit", "^cup$", "hello|cup"])).map(list)

NEVER = ["Say", "never said"]


def goes(*places):
    return [["GoTo", place, None] for place in places]


@given(TRACES, st.sampled_from(["after_first", "before_first", "after_last", "before_last"]))
def test_if_nothing_matches_the_part_is_the_trace_itself(trace, cut):
    assert _compile_trace_part([cut, "trace", NEVER])(trace) == trace


def test_first_and_last_differ_when_there_are_two_matches():
    trace = goes("a", "b", "a", "c")
    match = ["GoTo", "a"]
    assert _compile_trace_part(["after_first", "trace", match])(trace) == goes("b", "a", "c")
    assert _compile_trace_part(["after_last", "trace", match])(trace) == goes("c")
    assert _compile_trace_part(["before_first", "trace", match])(trace) == []
    assert _compile_trace_part(["before_last", "trace", match])(trace) == goes("a", "b")
    nested = ["before_first", ["after_first", "trace", ["GoTo", "b"]], ["GoTo", "c"]]
    assert _compile_trace_part(nested)(trace) == goes("a")


def test_one_option_of_an_ask_must_match_if_a_second_pattern_is_given():
    trace = [["Ask", "tea or coffee?", ["Tea", "Coffee"]]]
    assert check_holds(["exists", "trace", ["Ask", "coffee", "^tea$"]], trace)
    assert not check_holds(["exists", "trace", ["Ask", "coffee", "water"]], trace)
    assert not check_holds(["exists", "trace", ["Ask", "water", "tea"]], trace)
    assert check_holds(["exists", "trace", ["Ask", "coffee"]], trace)
    with pytest.raises(TypeError):
        check_holds(["exists", "trace", ["Ask", ".*", ".*"]], [["Ask", "how many?", [1, 2]]])


@given(TRACES, PATTERNS, PATTERNS)
def test_not_and_and_or_follow_de_morgan(trace, first, second):
    a, b = ["exists", "trace", first], ["exists", "trace", second]
    assert check_holds(["not", a], trace) != check_holds(a, trace)
    assert check_holds(["not", ["and", a, b]], trace) == check_holds(["or", ["not", a], ["not", b]], trace)


@given(TRACES, PATTERNS, PATTERNS)
def test_precedes_is_existence_after_the_first(trace, first, second):
    expanded = ["exists", ["after_first", "trace", first], second]
    assert check_holds(["precedes", "trace", first, second], trace) == check_holds(expanded, trace)
    # Without the first event nothing is cut.
    assert check_holds(["precedes", "trace", NEVER, second], trace) == check_holds(["exists", "trace", second], trace)
    assert check_holds(True, trace)


def test_act_at_first_looks_between_the_first_arrival_and_the_next_departure():
    check = ["act_at_first", "trace", "hall", ["Say", "hi"]]
    say = ["Say", "hi", None]
    assert check_holds(check, [*goes("hall"), say, *goes("kitchen")])
    assert not check_holds(check, [*goes("hall", "kitchen"), say])
    assert not check_holds(check, [*goes("hall", "kitchen", "hall"), say])
    assert not check_holds(check, [say])
    assert check_holds(check, [*goes("hall", "the hall again"), say])
    assert not check_holds(check, [*goes("hall", "hallway"), say])


@given(st.lists(st.tuples(st.sampled_from(["GoTo", "Say"]), st.sampled_from(["hall", "hallway", "x"])), max_size=9))
def test_any_visit_is_the_repeated_first_visit_of_what_is_left(pairs):
    rest = [[kind, text, None] for kind, text in pairs]
    for event in (["Say", "x"], ["GoTo", "hall"]):
        found, left = False, rest
        while left:
            found = found or check_holds(["act_at_first", "trace", "hall", event], left)
            dropped = _compile_trace_part(["after_first", "trace", ["GoTo", "hall"]])(left)
            left = dropped if len(dropped) < len(left) else []
        assert check_holds(["act_at_any_visit", "trace", "hall", event], rest) == found


MALFORMED = (
    ["xor", True, True],
    ["not", True, True],
    ["exists", "traces", ["Say", "x"]],
    ["exists", ["until", "trace", ["Say", "x"]], ["Say", "x"]],
    ["exists", "trace", ["Shout", "x"]],
    ["exists", "trace", ["Say", "("]],
    ["and", True, ["or", ["act_at_first", "trace", "(", ["Say", "x"]]]],
    ["precedes", "trace", ["Say", "x"], "y"],
    {"and": []},
)


def test_a_malformed_check_is_refused():
    for check in MALFORMED:
        with pytest.raises((LookupError, TypeError, ValueError, re.error)):
            compile_formula(check)
