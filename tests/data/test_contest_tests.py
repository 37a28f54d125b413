import base64
import json
import pickle
import zlib
from dataclasses import replace

import pytest

from lit_rl.data.contests import contest_tests
from lit_rl.data.contests.contest_tests import (
    ContestTest,
    build_contest_check,
    decode_hidden_tests,
    normalise_tests,
    stated_tolerance,
    tolerance_missing_in_check,
)
from lit_rl.execution.checks import CallTests, Checker, StdioTests
from lit_rl.execution.interface import Verdict
from lit_rl.execution.judging.calls import CallAnswers, value_matches
from lit_rl.execution.wire import plain

STDIN = [ContestTest("1 2\n", "3\n")]
FUNCTIONAL = {"input": '[1, 2]\n"a"\n', "output": "[3]", "testtype": "functional"}
CALL = [ContestTest(([1, 2], "a"), [3], "solve")]
WRAPPED = [ContestTest(([1, 2], "a"), [[3]], "solve", wraps=True)]


@pytest.mark.parametrize(
    ("stored", "function", "expected"),
    [
        # codeforces: no kind at all
        ([{"input": "1 2\n", "output": "3\n"}], None, STDIN),
        # primeintellect: fn_name is null for stdin
        ([{"input": "1 2\n", "output": "3\n", "type": "stdin_stdout", "fn_name": None}], None, STDIN),
        ([{"input": [[1, 2], "a"], "output": [[3]], "type": "function_call", "fn_name": "solve"}], None, WRAPPED),
        # lcbv5: JSON values, one per line; the name stands in the test or in the row
        ([FUNCTIONAL], "solve", CALL),
        ([{**FUNCTIONAL, "metadata": {"func_name": "solve"}}], None, CALL),
        # one bare dictionary
        ({"input": "1 2\n", "output": "3\n"}, None, STDIN),
        # taco: columns
        ({"inputs": ["1 2\n"], "outputs": ["3\n"]}, None, STDIN),
        ({"inputs": [["1\n", "2\n"]], "outputs": [["YES\n", "NO\n"]]}, None, [ContestTest("1\n2", "YES\nNO")]),
        ([{"input": "1", "output": [[1, 2], [3]]}], None, [ContestTest("1", "1 2\n3")]),
        (
            [{"input": "1", "output": "2 1", "accepted_outputs": ["1 2", "2 1"]}],
            None,
            [ContestTest("1", ("2 1", "1 2"))],
        ),
        ({"inputs": [[[1, 2], "a"]], "outputs": [[[3]]], "fn_name": "solve"}, None, WRAPPED),
        ({"inputs": [], "outputs": []}, None, []),
    ],
)
def test_every_stored_shape_comes_to_the_same_form(stored, function, expected):
    assert normalise_tests(stored, function) == expected


@pytest.mark.parametrize("stored", [[{"input": "1"}], [3], "[]", 3])
def test_tests_without_input_and_output_are_no_tests(stored):
    with pytest.raises((AttributeError, LookupError, TypeError)):
        normalise_tests(stored)
    for null in ({"inputs": ["1"], "outputs": [None]}, [{"input": "1", "output": None, "accepted_outputs": []}]):
        with pytest.raises(ValueError, match="an input or output of a test is null"):
            normalise_tests(null)


def test_checks_are_calls_or_stdio():
    printed = StdioTests((("1 2\n", "3\n"),), timeout_seconds=6.0, compare="decimals")
    assert build_contest_check(STDIN, 6.0, in_class=True) == printed
    method = build_contest_check(CALL, 6.0, in_class=True)
    assert isinstance(method, CallTests) and method.entry_point == "Solution.solve"
    assert method.cases == ((([1, 2], "a"), [3]),) and method.timeout_seconds == 6.0
    assert build_contest_check(CALL, 6.0, in_class=False).entry_point == "solve"
    with pytest.raises(ValueError, match=r"the same function, or none .* got \['None', 'solve'\]"):
        build_contest_check(STDIN + CALL, 6.0, in_class=False)


def test_a_tuple_is_taken_for_the_list_that_json_stores_at_any_depth():
    tests = normalise_tests([{"input": "1", "output": "[[1, 2], [3]]", "fn_name": "pairs"}])
    check = build_contest_check(tests, 6.0, in_class=False)
    assert value_matches(((1, 2), [3]), check.cases[0][1], check)
    assert not value_matches(((1, 2), (4,)), check.cases[0][1], check)
    assert not value_matches(({1, 2}, [3]), check.cases[0][1], check)


def passes(value, stored):
    check = build_contest_check(normalise_tests({"fn_name": "f", **stored}), 6.0, in_class=False)
    answers = CallAnswers(f"{{}}\n{plain.dumps(value)}\n".encode(), 1, None, lambda _: Verdict.EXCEPTION)
    return answers.verdicts_of_calls(check)[0] is Verdict.PASSED


# What the row stores, values that the judges of APPS and TACO accept for its first test, and values that they refuse.
JUDGED = {
    "integers as keys": (
        {"inputs": [[[1, 1, 2]]], "outputs": [{"1": 2, "2": 1}]},
        [{1: 2, 2: 1}, {"1": 2, "2": 1}],
        [{1: 2}, {1: 2, 2: 2}, {1: 2, "2": 1}],
    ),
    "a list of one, of a function of lists": (
        {"inputs": [[1], [2]], "outputs": [[3], [1, 2]]},
        [[3], (3,)],
        [[[3]], [4], []],
    ),
    "a list of one, of a function of anything": (
        {"inputs": [[1], [2]], "outputs": [[3], [4]]},
        [[3], 3, 3.0],
        [[[3]], [4], 4],
    ),
    "a text in a list": ({"inputs": [["abc"]], "outputs": [["cba"]]}, ["cba", ["cba"]], ["abc", "c"]),
    "a text": ({"inputs": [["abc"]], "outputs": ["cba"]}, ["cba"], ["abc", ["cba"], '"cba"']),
    "digits beside a list": ({"inputs": [["123"]], "outputs": ["321"]}, ["321"], [321, ["321"]]),
    "a number as JSON": ({"inputs": ["3\n[1]"], "outputs": ["12"]}, [12], ["12", [12]]),
    "nothing": ({"inputs": [[1]], "outputs": [None]}, [None], [0, "None", [None]]),
}


@pytest.mark.parametrize("case", JUDGED)
def test_values_are_compared_as_the_judges_of_these_sets_compare_them(case):
    stored, right, wrong = JUDGED[case]
    assert [value for value in right if not passes(value, stored)] == []
    assert [value for value in wrong if passes(value, stored)] == []


def test_arguments_get_integers_for_keys_where_all_of_them_are():
    stored = {"fn_name": "f", "inputs": [[{"1": 2, "-3": {"4": 5}}, {"1": 0, "a": 0}, ["6"]]], "outputs": [1]}
    (test,) = normalise_tests(stored)
    assert test.given == ({1: 2, -3: {"4": 5}}, {"1": 0, "a": 0}, ["6"])


GRANTED = {
    "Your answer is correct if the relative or absolute error does not exceed $10^{-6}$.": 1e-6,
    "an absolute error of at most 10^{ - 9} is allowed": 1e-9,
    "Answers within 10-5 of the actual answer will be accepted.": 1e-5,
    "Print it with an error of at most 10\u2212 4.": 1e-4,
    "accepted if it differs from the correct answer by at most 1e-7": 1e-7,
    "The absolute error should be less than 0.001.": 1e-3,
    "a tolerance of 10**(-3) is granted": 1e-3,
    "Answers within 10-20 apples of each other do not differ.": None,
    "There are 10-20 apples. Print how many are red.": None,
    "Each of 1000000 numbers is a multiple of 0.01.": None,
    "An error is printed as ERROR 10^6.": None,
}


def test_the_error_that_a_statement_grants_is_read():
    assert {statement: stated_tolerance(statement) for statement in GRANTED} == GRANTED


def test_an_error_is_denied_where_fractions_are_compared_more_strictly():
    exact, whole = StdioTests((("1", "0.3\n"),), compare="decimals"), StdioTests((("1", "3\n"),))
    words, calls = replace(exact, compare="tokens"), CallTests((((1,), [0.5]),), "f", tolerance=1e-6)
    statement = "The relative error must not exceed 10^-{}.".format
    checks = (exact, whole, words, calls)
    assert [tolerance_missing_in_check(statement(6), check) for check in checks] == [1e-6, None, None, None]
    assert [tolerance_missing_in_check(statement(4), check) for check in checks] == [1e-4, None, 1e-4, 1e-4]
    judged = replace(exact, checker=Checker("import sys"))
    assert (
        tolerance_missing_in_check(statement(4), judged) is None
        and tolerance_missing_in_check("Print it.", exact) is None
    )


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_text_is_read_by_every_protocol(protocol):
    text = json.dumps([{"input": "ä" * 300, "output": "\U0001f600"}])
    assert decode_hidden_tests(packed(pickle.dumps(text, protocol))) == json.loads(text)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.parametrize(
    "stored",
    [
        packed(pickle.dumps(Trap())),
        packed(pickle.dumps(("[1]", Trap()))),
        packed(pickle.dumps("[1]")[:-1]),
        packed(b"\x80\x04\x8c\x03[1]\x8c\x03[2]."),
    ],
)
def test_a_pickle_of_anything_but_one_text_is_refused_and_never_loaded(stored):
    with pytest.raises(ValueError):
        decode_hidden_tests(stored)


def test_hidden_tests_that_unpack_to_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(contest_tests, "MAX_HIDDEN_BYTES", 1000)
    assert decode_hidden_tests(packed(b"[" + b" " * 900 + b"]")) == []
    with pytest.raises(ValueError, match="unpack to more than 1000 bytes"):
        decode_hidden_tests(packed(b"[" + b" " * 1100 + b"]"))
