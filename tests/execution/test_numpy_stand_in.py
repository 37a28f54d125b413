"""Values that the stand-in of numpy calls close, numpy calls close too; a test's plan and its source agree on it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.named_jobs import judge_named, not_among
from test_loop_plan import ASSERTIONS, IS_FLOATS, evalplus, for_a_grader

from lit_rl.data.mbpp_plus import comparing_test
from lit_rl.execution import AssertTests
from lit_rl.execution.judging.asserts.assert_plan import HelperAssertion, plan_asserts
from lit_rl.execution.judging.asserts.known_helpers import NUMPY_STAND_IN
from lit_rl.execution.wire.neutral_values import Array, FieldTuple, Opaque

RTOL, ATOL = 1e-7, 1e-6

numbers = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 5e-7, 1.0 + 2e-6, 1e300, 1.7e308, inf, -inf, nan]),
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, -(10**400)]),
    st.booleans(),
    st.complex_numbers(),
    st.sampled_from([1.0 + 1e-9j, complex(inf, 0), complex(0, -inf), complex(nan, inf), complex(1.7e308, 1.7e308)]),
)
others = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.sampled_from(["", "1.0", "inf", b"", b"\x01", bytearray(b"\x01"), Decimal(1), Decimal("inf"), Fraction(1)]),
    st.sampled_from([range(2), ..., Opaque("A"), {}.keys(), Array("float64", (2,), [1.0, 2.0])]),
)
leaves = st.one_of(numbers, numbers, others)


def containers(inner):
    hashable = st.one_of(st.floats(allow_nan=False), st.integers(-3, 3), st.text(max_size=2))
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, min_size=2, max_size=2).map(lambda items: FieldTuple.of("Point", ["x", "y"], items)),
        st.sets(hashable, max_size=3),
        st.dictionaries(hashable, inner, max_size=3),
    )


values = st.recursive(leaves, containers, max_leaves=8)
# Pairs that differ little: a second value is made of the first by changing its numbers and its kinds of sequence.
shifts = st.sampled_from([0, 0.0, 5e-7, 1.1e-6, -1e-3, inf, nan, 1, 0j])
pairs = st.one_of(
    st.tuples(values, values),
    st.tuples(st.lists(numbers, max_size=4), st.lists(numbers, max_size=4)),
    st.tuples(values, shifts).map(lambda pair: (shifted(*pair), pair[0])),
)


def shifted(value, shift):
    if isinstance(value, list | tuple):
        made = [shifted(item, shift) for item in value]
        return tuple(made) if isinstance(value, list) else made
    try:
        return value + shift if isinstance(value, int | float | complex) else value
    except OverflowError:
        return inf


def stand_in():
    space: dict = {}
    exec(NUMPY_STAND_IN, space)
    return space["np"]


def holds_large_int(expected):
    """Return whether numpy refuses the expected value itself, whatever comes back: no type of its own holds it."""
    if isinstance(expected, list | tuple):
        return any(map(holds_large_int, expected))
    return isinstance(expected, int) and not -(2**63) <= expected < 2**63


def accepted(allclose, value, expected, atol=ATOL):
    try:
        return bool(allclose(value, expected, rtol=RTOL, atol=atol))
    except Exception:
        return False


@settings(max_examples=300, deadline=None)
@given(pairs, st.sampled_from([1e-6, 1e-4, 2.0]))
@example((12345.0, inf), ATOL)
@example((nan, nan), ATOL)
@example(("", []), ATOL)
@example(({}, []), ATOL)
@example(({0.5: 1}, [0.5]), ATOL)
@example((b"\x01", [1.0]), ATOL)
@example(({0.5, 1.5}, [0.5, 1.5]), ATOL)
@example(([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]]), ATOL)
@example(([10**400, 1.0], [10**400, 1.0 + 1e-9]), ATOL)
@example((["a", 1.0], ["a", 1.0 + 1e-9]), ATOL)
@example(([None, 1.0], [None, 1.0 + 1e-9]), ATOL)
def test_what_the_stand_in_accepts_numpy_accepts(pair, atol):
    numpy = pytest.importorskip("numpy", reason="numpy is what the stand-in is compared with")
    value, expected = pair
    found = stand_in().allclose(value, expected, rtol=RTOL, atol=atol)  # and it never raises
    assert type(found) is bool
    if found and not holds_large_int(expected):
        with numpy.errstate(all="ignore"):
            assert accepted(numpy.allclose, value, expected, atol), pair


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(), shifts), max_size=4), st.booleans(), st.booleans())
def test_on_floats_it_answers_what_numpy_answers(items, one_is_a_tuple, nested):
    numpy = pytest.importorskip("numpy", reason="numpy is what the stand-in is compared with")
    expected = [float(item) for item, _ in items]
    value = [item + float(shift.real) for item, shift in items]
    given_value = tuple(value) if one_is_a_tuple else value
    pair = ([given_value, given_value], [expected, expected]) if nested else (given_value, expected)
    with numpy.errstate(all="ignore"):
        assert stand_in().allclose(*pair, RTOL, ATOL) is accepted(numpy.allclose, *pair)


@settings(max_examples=200, deadline=None)
@given(pairs, st.sampled_from([0, 1e-4]), st.sampled_from(sorted({*ASSERTIONS} - {"as_truth"})))
@example((12345.0, inf), 0, "as_is")
@example(("", []), 0, "as_is")
@example(([[1]], [[1]]), 0, "as_sets")
def test_the_plan_compares_as_the_source_of_the_test_does(pair, atol, kind):
    """The helper of a plan against the same helper run as Python, both over the stand-in."""
    value, expected = pair
    compare = compare_of(kind)
    space: dict = {}
    exec(f"{NUMPY_STAND_IN}\n{IS_FLOATS}{ASSERTIONS[kind]}", space)
    try:
        space["assertion"](value, expected, atol)
        wanted = True
    except Exception:
        wanted = False
    try:
        found = compare(value, expected, atol)
    except Exception:
        found = False
    assert found is wanted


def compare_of(kind):
    (assertion,) = plan_asserts(evalplus(kind, [[1]], [[1]]), "f").assertions
    assert isinstance(assertion, HelperAssertion)
    return assertion.compare


LIES = {
    "any number for infinity": ("[0.5, inf]", "[0.5, 12345.0]"),
    "the other infinity": ("inf", "-inf"),
    "infinity for a large float": ("1.7e308", "inf"),
    "not a number for infinity": ("[inf]", "[nan]"),
    "text for an empty list": ("[]", "''"),
    "bytes for an empty list": ("[]", "b''"),
    "an empty dict for an empty list": ("[]", "{}"),
    "an empty set for an empty list": ("[]", "set()"),
    "an empty range for an empty list": ("[]", "range(0)"),
    "keys for floats": ("[0.5, 1.5]", "{0.5: 1, 1.5: 2}"),
    "bytes for floats": ("[1.0, 2.0]", "b'\\x01\\x02'"),
    "a set for floats": ("[0.5, 1.5]", "{0.5, 1.5}"),
    "an iterator of floats": ("[0.5, 1.5]", "iter([0.5, 1.5])"),
    "lists of one for floats": ("[0.5, 1.5]", "[[0.5], [1.5]]"),
    "a large int for infinity": ("inf", "10**400"),
    "a large int for a float": ("1.7e308", "10**400"),
}
HONEST = {
    "infinity": ("[0.5, inf, -inf]", "[0.5 + 1e-8, inf, -inf]"),
    "a tuple for a list": ("[0.5, 1.5]", "(0.5, 1.5 + 1e-8)"),
    "an empty tuple for an empty list": ("[]", "()"),
    "an int for a float": ("[3.0, inf]", "[3, inf]"),
}


def checks(expected):
    """The same test three times: with a plan, in a grader, and compared with what a reference returns."""
    test = evalplus("as_is", [[1]], []).replace("results = []", f"results = [{expected}]")
    assert plan_asserts(test, "f") is not None
    yield AssertTests(test, "f")
    yield AssertTests(for_a_grader(test), "f")
    reference = f"from math import inf, nan\ndef f(x):\n    return {expected}\n"
    yield AssertTests(comparing_test(reference, "f", [[1]], 0), "f")


@pytest.mark.parametrize(("cases", "verdict"), [(LIES, "wrong_answer"), (HONEST, "passed")])
def test_lies_about_floats_fail_in_every_form_of_the_test(sandbox, cases, verdict):
    jobs = {}
    for name, (expected, answer) in cases.items():
        program = f"from math import inf, nan\ndef f(x):\n    return {answer}\n"
        jobs |= {(name, form): (program, check) for form, check in enumerate(checks(expected))}
    assert not_among(judge_named(sandbox, jobs), verdict) == {}
