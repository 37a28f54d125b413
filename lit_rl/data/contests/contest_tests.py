"""Tests of contest problems, from the shapes in which DeepCoder, TACO and LiveCodeBench store them.

A statement shows some of these tests, which are found only if the statement leaves no doubt.
"""

from __future__ import annotations

import ast
import base64
import json
import pickletools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lit_rl.data.examples_in_text import find_call_examples
from lit_rl.errors import UsageError
from lit_rl.execution.checks import CallTests, Checker, Compare, StdioTests
from lit_rl.execution.interface import Check

MAX_HIDDEN_BYTES = 1 << 30
"""Hidden tests that unpack to more bytes are refused: a short text can unpack to any size."""

FLOAT_TOLERANCE = 1e-6
"""Tolerance, absolute or relative, within which returned floats count as equal, as contests allow."""

_DIALOGUE = re.compile(r"\binteractive (?:problem|task)\b", re.IGNORECASE)
_POWER = re.compile(
    r"\b10\s*(?:\^|\*\*|\\\^)?\s*[{(]*\s*[-\u2212\u2013]\s*(?P<power>[1-9]|1[0-2])\b"
    r"|\b1(?:\.0)?[eE][-\u2212](?P<exponent>\d{1,2})\b|\b0\.(?P<zeros>0+)1\b"
)
_ERROR = re.compile(
    r"\berrors?\b|\btoleran|\bprecision\b|\baccura|\bdiffer|\bwithin\b|\bconsidered correct\b", re.IGNORECASE
)
_FRACTION = re.compile(r"\d\.\d")
_NEEDS_CHECKER = re.compile(r"\b(?:print|output|find|return) any\b|\bany of (?:them|those)\b", re.IGNORECASE)
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_INTEGER = re.compile(r"-?\d{1,100}")
_STRING_CODES = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")


@dataclass(frozen=True)
class ContestTest:
    """One test in the common form.

    Args:
        given: stdin as text; for a function the arguments.
        expected: stdout as text, or a tuple of texts of which any is right; for a function the value.
        function: name of the function to call; ``None`` for a program that reads stdin.
        grade: the group of tests that this test belongs to, if the row has groups.
        wraps: whether the value is a list of one item; data sets store the item itself in this way, too.
    """

    given: Any
    expected: Any
    function: str | None = None
    grade: str = ""
    wraps: bool = False


def normalise_tests(tests: Any, function: str | None = None) -> list[ContestTest]:
    """Return tests in the common form, from any of the shapes in use.

    * a list of ``{input, output}`` with ``testtype`` or ``type`` (``stdin`` where missing) and, for
      functions, ``fn_name`` or ``metadata.func_name``, otherwise the row's name;
    * one such dictionary;
    * ``{"inputs": [...], "outputs": [...], "fn_name": ...}``: paired, the shorter side filled up with its
      first item, as trainers on these sets do; with ``fn_name`` every test calls that function.

    For functions, arguments stored as text are one JSON value per line. A value stored as text beside them is JSON too;
    but if one such value of the row is not JSON, all of them are plain texts, as beside arguments stored in a list.
    Keys of an argument become integers if all are integers stored as text. For stdin, a list as input or output is a
    list of lines. ``accepted_outputs`` in place of ``output`` lists several outputs, any of which is right. A test with
    ``grade`` belongs to the group of tests of that name.

    Source:
        what trainers make of functions: https://github.com/hendrycks/apps/blob/main/eval/testing_util.py, and verl's
        ``prime_code``
    """
    if isinstance(tests, Mapping) and "inputs" in tests:
        inputs, outputs = (list(tests.get(name) or ()) for name in ("inputs", "outputs"))
        count = max(len(inputs), len(outputs)) if inputs and outputs else 0
        filled = (part[:count] + part[:1] * (count - len(part)) for part in (inputs, outputs))
        name = tests.get("fn_name")
        tests = [{"input": given, "output": output, "fn_name": name} for given, output in zip(*filled, strict=True)]
    elif isinstance(tests, Mapping):
        tests = [tests]
    try:
        return [_parse_test(test, function, json.loads) for test in tests]
    except json.JSONDecodeError:  # in a value: all values of this row are texts
        return [_parse_test(test, function, str) for test in tests]


def _parse_test(test: Any, function: str | None, read: Callable[[str], Any]) -> ContestTest:
    kind = test.get("testtype") or test.get("type") or "stdin"
    if test.get("fn_name") or kind in ("functional", "function_call"):
        name = test.get("fn_name") or (test.get("metadata") or {}).get("func_name") or function
        return _parse_call_test(test["input"], test["output"], name, read)
    accepted, expected = test.get("accepted_outputs"), test.get("output")
    if not accepted:
        right: str | tuple[str, ...] = _join_test_text(test["output"])
    else:
        accepted = accepted if isinstance(accepted, list) else [accepted]
        right = tuple(dict.fromkeys(map(_join_test_text, accepted if expected is None else (expected, *accepted))))
    return ContestTest(_join_test_text(test["input"]), right, grade=str(test.get("grade") or ""))


def _parse_call_test(given: Any, expected: Any, function: str | None, read: Callable[[str], Any]) -> ContestTest:
    wraps = isinstance(expected, list) and len(expected) == 1
    if isinstance(given, str):
        expected = read(expected) if isinstance(expected, str) else expected
        given = [json.loads(line) for line in given.split("\n") if line.strip()]
    arguments = (
        # JSON turned integer keys into texts.
        {int(key): value for key, value in one.items()}
        if isinstance(one, dict) and all(map(_INTEGER.fullmatch, one))
        else one
        for one in given
    )
    return ContestTest(tuple(arguments), expected, function, wraps=wraps)


class NullInputOutputError(UsageError):
    """An input or output of a whole program is null."""


def _holds_null(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(map(_holds_null, value)))


def _join_test_text(value: Any) -> str:
    """Return text unchanged, a list joined as lines; a line is a text (with or without newline) or a list of words."""
    if _holds_null(value):
        raise NullInputOutputError("an input or output of a test is null: leave out the test, or the row")
    if not isinstance(value, list):
        return str(value)
    lines = (" ".join(map(str, line)) if isinstance(line, list) else str(line) for line in value)
    return "\n".join(line.removesuffix("\n") for line in lines)


def build_contest_check(
    tests: Sequence[ContestTest],
    timeout_seconds: float,
    *,
    in_class: bool,
    compare: Compare = "decimals",
    tolerance: float = FLOAT_TOLERANCE,
    checker: Checker | None = None,
) -> CallTests | StdioTests:
    """Return the check of a problem; tests of a group come one after the other, and groups in order of appearance.

    All tests read stdin, or all call the same function (with ``in_class``, a method of ``class Solution``). By default
    outputs of whole programs are compared as in LiveCodeBench.
    """
    functions = {test.function for test in tests}
    if len(functions) != 1 or (checker is not None and functions != {None}):
        raise UsageError(
            f"all tests must call the same function, or none (as under a checker); got {sorted(map(str, functions))}"
        )
    (function,) = functions
    if function is None:
        groups = Counter(test.grade for test in tests)
        cases = tuple((test.given, test.expected) for grade in groups for test in tests if test.grade == grade)
        grades = tuple(groups.items()) if any(groups) else ()
        return StdioTests(
            cases,
            timeout_seconds=timeout_seconds,
            compare=compare,
            tolerance=tolerance,
            checker=checker,
            grades=grades,
        )
    entry_point = f"Solution.{function}" if in_class else function
    wraps = all(test.wraps for test in tests)  # otherwise the row stores values as they are
    calls = tuple((test.given, test.expected[0] if wraps else test.expected) for test in tests)
    return CallTests(calls, entry_point, timeout_seconds, tolerance, as_json=True, in_list=wraps)


def is_interactive_problem(statement: str) -> bool:
    """Return whether a program has to talk with another program, so that no input and output can be listed."""
    return _DIALOGUE.search(statement) is not None


def needs_checker(statement: str) -> bool:
    """Return whether a statement asks for any of several answers, so that one listed output cannot decide.

    >>> needs_checker("If there are multiple solutions, print any of them.")
    True
    """
    return _NEEDS_CHECKER.search(statement) is not None


def stated_tolerance(statement: str) -> float | None:
    """Return the error that a statement allows in printed or returned numbers, a power of ten; ``None`` if none.

    >>> stated_tolerance("The absolute or relative error of the answer must not exceed $10^{-6}$.")
    1e-06
    """
    for power in _POWER.finditer(statement):
        around = statement[max(0, power.start() - 120) : power.end() + 60]
        if _ERROR.search(around):
            exponent = power["power"] or power["exponent"] or str(len(power["zeros"]) + 1)
            return float(f"1e-{exponent}")
    return None


def tolerance_missing_in_check(statement: str, check: Check) -> float | None:
    """Return the error that a statement allows but its check forbids; ``None`` if no expected number has a fraction."""
    if not isinstance(check, CallTests | StdioTests) or (isinstance(check, StdioTests) and check.checker):
        return None
    granted = stated_tolerance(statement)
    allowed = check.tolerance if isinstance(check, CallTests) or check.compare == "tokens" else 0.0
    if granted is None or allowed >= granted or not _FRACTION.search(repr([expected for _, expected in check.cases])):
        return None
    return granted


# Runs a checker with the answer and the output the other way round, and turns what it prints into an exit status.
_PRINTS_ONE = """\
import contextlib, io, runpy, sys
sys.argv[2:] = sys.argv[:1:-1]
printed = io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
    runpy.run_path("printing_checker.py", run_name="__main__")
sys.exit(printed.getvalue().strip() != "1")
"""


def checker_from_row(row: Mapping[str, Any], files: Mapping[str, str]) -> Checker | None:
    """Return the checker that a row brings, if there is one.

    Args:
        row: its ``checker`` is a C++ or Python program that follows testlib's protocol. Its ``generated_checker`` is a
            Python program that gets input, right output and the judged output, and prints 1 if the latter is right.
        files: names and texts of files that checkers may include.

    Source:
        ``checker``: Wang et al. 2025 (CodeContests+), https://arxiv.org/abs/2506.05817; ``generated_checker``:
        https://huggingface.co/datasets/open-r1/codeforces
    """
    if source := row.get("generated_checker"):
        return Checker(_PRINTS_ONE, "python", (("printing_checker.py", source),))
    if not (source := row.get("checker")):
        return None
    try:
        ast.parse(source)
        return Checker(source, "python")
    except (SyntaxError, ValueError):
        included = dict.fromkeys(_INCLUDED.findall(source))
    return Checker(source, "cpp", tuple((name, files[name]) for name in included))


def decode_hidden_tests(stored: str) -> Any:
    """Return LiveCodeBench's private tests from JSON, or from base64 of zlib of JSON or of a pickled JSON text.

    The pickle is never loaded, because loading could run any code. Its opcodes are read instead, for exactly one text.
    """
    try:
        return json.loads(stored)
    except ValueError:
        packed = stored
    unpacker, content = zlib.decompressobj(), b""
    fault = f"they are cut off, or unpack to more than {MAX_HIDDEN_BYTES} bytes"
    try:
        content = unpacker.decompress(base64.b64decode(packed, validate=True), MAX_HIDDEN_BYTES)
    except (ValueError, zlib.error) as error:
        fault = str(error)
    if not unpacker.eof:
        raise UsageError(f"hidden tests are neither JSON nor packed JSON ({fault})")
    if not content.startswith(b"\x80"):
        return json.loads(content)
    (text,) = (argument for code, argument, _ in pickletools.genops(content) if code.name in _STRING_CODES)
    return json.loads(str(text))


# A line that says "Input", "Sample Input 1", "-----Sample Output-----", "Examples Input" and the like, and no more.
_LABEL = r"[\W_]*(?:(?:sample|examples?|standard)[\W_]*)?{word}s?[\W_]*(?:\d+|#\d+)?[\W_]*"


def tests_shown_in_statement(
    statement: str, tests: Sequence[ContestTest], parameters: Sequence[str] = ()
) -> list[ContestTest]:
    """Return the tests whose input and output are in the statement as an example.

    A test of a whole program is shown if the statement has a line that says ``Input`` (or ``Sample Input`` and the
    like), then the test's input line by line, then a line that says ``Output``, then the expected output. A test of a
    function is shown if the statement has that call with that value, see
    :func:`~lit_rl.data.examples_in_text.find_call_examples`.
    """
    if any(test.function for test in tests):
        return [test for test in tests if _statement_shows_call(statement, test, parameters)]
    lines = [line.strip() for line in statement.split("\n")]
    return [test for test in tests if _statement_shows_io_example(lines, test)]


def _statement_shows_call(statement: str, test: ContestTest, parameters: Sequence[str]) -> bool:
    examples = find_call_examples(statement, str(test.function), parameters)
    accepted = [test.expected, *(test.expected if test.wraps else [])]
    stored = [repr((_normalise_for_json(test.given), _normalise_for_json(expected))) for expected in accepted]
    return any(
        repr((_normalise_for_json(example.arguments), _normalise_for_json(example.expected))) in stored
        for example in examples
    )


def _normalise_for_json(value: object) -> object:
    """Return the value as JSON stores it, with lists for tuples and texts for keys."""
    if isinstance(value, dict):
        return {str(key): _normalise_for_json(item) for key, item in value.items()}
    return [_normalise_for_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _statement_shows_io_example(lines: Sequence[str], test: ContestTest) -> bool:
    """Return whether lines of a statement show the input and output of a test, each below its label."""

    def says(line: str, word: str) -> bool:
        return re.fullmatch(_LABEL.format(word=word), line, re.IGNORECASE) is not None

    for expected in test.expected if isinstance(test.expected, tuple) else (test.expected,):
        given, printed = (
            [line.strip() for line in str(text).split("\n") if line.strip()] for text in (test.given, expected)
        )
        if not given or not printed:  # an empty block is found anywhere
            continue
        wanted = (*given, None, *printed)
        for start, label in enumerate(lines):
            if says(label, "input"):
                found = [line for line in lines[start + 1 :] if line not in ("", "```")][: len(wanted)]
                if len(found) == len(wanted) and all(
                    says(line, "output") if want is None else line == want
                    for line, want in zip(found, wanted, strict=True)
                ):
                    return True
    return False
