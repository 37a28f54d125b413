"""Checks: plain data that says how a program is judged.

A check says what a correct program does; it never runs anything itself. Checks are small frozen
dataclasses of plain data: they pickle, compare and cross process and machine borders.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from lit_rl.errors import ArgumentError
from lit_rl.execution.interface import Check as Check
from lit_rl.execution.interface import require_serialisable, wall_limit
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.languages import Language as Language
from lit_rl.execution.program import ExtractedProgram, Extraction, Wanted
from lit_rl.execution.wire.value_text import value_text

Compare = Literal["lines", "decimals", "tokens"]
COMPILE_SECONDS = 10.0
MAX_COMPILATIONS = 3
_MAX_EXPECTED = 10**sys.int_info.default_max_str_digits  # the longest that Python reads from a text
_OF_DRIVERS = "values of JSON (arguments: integers below 2**53, finite numbers; in C no lists and no dicts)"
_PATH = re.compile(r"[\w./~$-]+\.(?:py|c|cc|cpp|cxx)", re.ASCII)


@dataclass(frozen=True)
class AssertTests(Check):
    """Python test code that uses the program's functions: HumanEval's ``check(candidate)``, MBPP's asserts.

    Args:
        test: source of the tests. With ``entry_point`` set and a function ``check`` defined here, the
            supervisor calls ``check(<entry point>)`` after the tests were defined.
        entry_point: the function under test; ``None`` for bare asserts.
        timeout_seconds: CPU seconds for the program and its tests together.
        in_place: let calls change the tests' lists, dicts and sets. If off, a call gets copies.
        allow_objects: let the program's classes decide ``==``, ``<``, ``bool`` and ``hash`` of their objects.
            Only for tests that need it: a class can claim to equal anything. If off, such an object equals
            only itself, and plain results of its operators may count as no evidence (docs/sandbox.md, Asserts).
    """

    test: str
    entry_point: str | None = None
    timeout_seconds: float = 10.0
    in_place: bool = False
    allow_objects: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.calls:judge_asserts"

    def __post_init__(self) -> None:
        _require(self, "test", self.test, isinstance(self.test, str), "a text", 'join lines by "\\n"')
        _require_seconds(self)

    @property
    def num_tests(self) -> int:
        """Number of tests that can be counted without running them, at least one; docs/sandbox.md defines a test."""
        from lit_rl.execution.judging.asserts.prepared_tests import count_tests

        return max(1, count_tests(self.test, self.entry_point))

    @property
    def wall_budget_seconds(self) -> float:
        """Program and tests share one limit."""
        return wall_limit(self.timeout_seconds)


@dataclass(frozen=True)
class CallTests(Check):
    """Calls of one function with the value each must return, compared outside the program's process.

    Args:
        cases: ``((args, expected), ...)``: a tuple of positional arguments and the expected value, both plain
            data (None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict); in languages other
            than Python, what JSON holds: tuples become lists, and keys of dicts texts; C takes no lists and no dicts.
        entry_point: name of the function, or ``Class.method`` (the instance is built without arguments; not in C and
            Go).
        timeout_seconds: CPU seconds for one case.
        tolerance: largest difference between floats, absolute or relative, that still counts as equal.
        as_json: compare as JSON stores values, at any depth: a tuple equals a list of the same items, and a key of a
            dict its text.
        in_list: a list with the expected value as its only item will do too.
        in_place: compare the expected value with the first argument after the call, not with the result.
        as_evalplus: compare as EvalPlus does, whatever else is set: equal, or of the same type with numbers that differ
            by at most ``tolerance`` and 1e-7 of the expected one. If ``tolerance`` is 0, 1e-6 is used for an expected
            float, or a flat list or tuple of nothing but floats.
        language: what the program is written in.
        shared_timeout: give the program and all cases together the seconds of one.
    """

    cases: tuple[tuple[tuple[Any, ...], Any], ...]
    entry_point: str
    timeout_seconds: float = 5.0
    tolerance: float = 0.0
    as_json: bool = False
    in_list: bool = False
    in_place: bool = False
    as_evalplus: bool = False
    language: Language = "python"
    shared_timeout: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.driven_calls:judge_calls"

    def __post_init__(self) -> None:
        _require_cases(self)
        _require_seconds(self)
        _require_language(self)
        names = str(self.entry_point).split(".")
        few = 1 if self.language in ("c", "go") else len(names)
        is_function = all(map(str.isidentifier, names)) and len(names) <= few
        _require(
            self, "entry_point", self.entry_point, is_function, "a function or Class.method (a function in C and Go)"
        )
        for index, case in enumerate(self.cases):
            where = f"cases[{index}]"
            is_call = isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple)
            wanted = "(arguments, expected), of which the arguments are a tuple"
            _require(self, where, case, is_call, wanted, "f(2) == 4 is ((2,), 4)")
            require_serialisable(case[0], f"CallTests.{where}: an argument")
            require_serialisable(case[1], f"CallTests.{where}: the expected value")
            if self.language != "python":
                is_flat = self.language != "c" or not any(isinstance(one, list | tuple | dict) for one in case[0])
                is_json = is_flat and _is_json(case[0], False) and _is_json(case[1], True)
                _require(self, where, case, is_json, f"{_OF_DRIVERS}, as language is {self.language}")

    @property
    def num_limits(self) -> int:
        """Times that a program may use the seconds of a case."""
        return 1 if self.shared_timeout else len(self.cases)

    @property
    def wall_budget_seconds(self) -> float:
        """One limit per case, and one per run of the compiler, which is retried."""
        compiling = 0.0 if self.language == "python" else MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)
        return self.num_limits * wall_limit(self.timeout_seconds) + compiling


@dataclass(frozen=True)
class Checker:
    """A program that judges outputs, for tasks with many right outputs. Its protocol is testlib's.

    It gets the names of three files as arguments: the input, the program's output, and the right answer. Its exit
    status is 0 for a right output, 1 or 2 for a wrong one, 3 if it cannot tell, or 7 for points: the first line of its
    standard error is then ``points NUMBER``.

    Args:
        source: source of the checker.
        language: what it is written in.
        files: ``((name, content), ...)``: files that it includes or imports, such as ``testlib.h``.
        timeout_seconds: CPU seconds for one output.

    Source:
        https://github.com/MikeMirzayanov/testlib
    """

    source: str
    language: Language = "cpp"
    files: tuple[tuple[str, str], ...] = ()
    timeout_seconds: float = 10.0

    ARGUMENTS: ClassVar[tuple[str, ...]] = ("input.txt", "output.txt", "answer.txt")

    def __post_init__(self) -> None:
        _require_language(self, ("python", "c", "cpp"))
        _require_seconds(self)
        is_source = bool(self.source.strip()) and not _PATH.fullmatch(self.source)
        _require(self, "source", self.source, is_source, "the text of a program, not its file")


@dataclass(frozen=True)
class StdioTests(Check):
    """Whole programs that read stdin and write stdout.

    Args:
        cases: ``((stdin, expected_stdout), ...)``; a tuple of texts as expected output accepts any of them.
        language: what the program is written in.
        timeout_seconds: CPU seconds for one case.
        compare: ``lines``: line by line, ignoring trailing white space. ``decimals``: line by line, ignoring white
            space at both ends; lines that differ still match if both hold the same numbers (``1.50 2`` and
            ``1.5 2.0``). ``tokens``: word by word, wherever lines end; numbers match if they have the same value
            or, unless both are integers, differ by at most ``tolerance``.
        tolerance: for ``tokens``, the largest difference that counts as equal: absolute, or relative to an
            expected number with a fraction or an exponent; only absolute if the expected number is an integer.
        checker: judges outputs in place of ``compare``; it must accept each expected output.
        grades: ``((name, number of cases), ...)``: groups of cases, in their order. Each has a score in the outcome,
            that of its worst case: 1 if it passed, else 0 or the share of the expected output's points that the
            checker gave.
        stop_at_failure: run no case after the first that fails; the verdict is the same, and scores count cases that
            did not run as failed.
    """

    cases: tuple[tuple[str, str | tuple[str, ...]], ...]
    language: Language = "python"
    timeout_seconds: float = 5.0
    compare: Compare = "lines"
    tolerance: float = 1e-6
    checker: Checker | None = None
    grades: tuple[tuple[str, int], ...] = ()
    stop_at_failure: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.stdio:judge_stdio"

    def __post_init__(self) -> None:
        _require_cases(self)
        _require_language(self)
        _require_seconds(self)
        rules = get_args(Compare)
        _require(self, "compare", self.compare, self.compare in rules, f"one of {', '.join(rules)}")
        for index, case in enumerate(self.cases):
            is_case = isinstance(case, tuple) and len(case) == 2 and _is_text(case[0]) and _is_expected(case[1])
            _require(self, f"cases[{index}]", case, is_case, "two texts (or a tuple of accepted outputs as the second)")
        counts = dict(self.grades)
        are_right = (
            len(counts) == len(self.grades) and sum(counts.values()) == len(self.cases) and min(counts.values()) > 0
        )
        wanted = f"different names with numbers of cases, {len(self.cases)} together"
        _require(self, "grades", self.grades, not self.grades or are_right, wanted)

    @property
    def defines(self) -> str | None:
        """The main function, if the language requires one."""
        return LANGUAGES[self.language].main

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the groups of cases; ``points`` for all cases of a checker without groups."""
        return tuple(name for name, _ in self.grades) or (() if self.checker is None else ("points",))

    @property
    def wall_budget_seconds(self) -> float:
        """One limit per case, per output that is checked, and per run of the compiler, which is retried."""
        compiled = [self.language, *([] if self.checker is None else [self.checker.language])]
        compiling = len(compiled) - compiled.count("python")
        checked = sum(1 if isinstance(expected, str) else len(expected) for _, expected in self.cases)
        checking = 0.0 if self.checker is None else 3 * checked * wall_limit(self.checker.timeout_seconds)
        return super().wall_budget_seconds + checking + compiling * MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)


UNIT_TESTS: tuple[Language, ...] = ("cpp", "javascript", "java", "go", "rust")
"""Languages with a driver for tests."""


@dataclass(frozen=True)
class UnitTests(Check):
    """Tests that are compiled with the program and share its process, as HumanEval-X and MultiPL-E have them.

    For evaluation: a secret that is sent after the last test proves a pass. A program that ends early has failed, but
    a program that looks for the secret can send it. Train with ``StdioTests`` or ``CallTests``.

    Args:
        test: source of the tests: a ``main`` in C++, ``Main.main`` in Java, statements in JavaScript, functions
            ``Test...`` in Go and functions marked ``#[test]`` in Rust.
        language: what both are written in.
        setup: source before the program, such as includes, imports, or Go's package clause.
        entry_point: the function under test, to find the program in a completion.
        timeout_seconds: CPU seconds for the program and its tests together.
    """

    test: str
    language: Language = "cpp"
    setup: str = ""
    entry_point: str | None = None
    timeout_seconds: float = 10.0

    judged_by: ClassVar[str] = "lit_rl.execution.judging.units:judge_units"

    def __post_init__(self) -> None:
        _require_language(self, UNIT_TESTS)
        _require_seconds(self)

    @property
    def num_tests(self) -> int:
        """One: tests that share a process pass together."""
        return 1

    @property
    def wall_budget_seconds(self) -> float:
        """One limit for all tests, and one per run of the compiler, which is retried when it fails."""
        return wall_limit(self.timeout_seconds) + MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)


@dataclass(frozen=True)
class ReferenceText(Check):
    """No execution: the completion is compared with a reference by reward terms.

    Args:
        text: the reference.
        language: what the reference is written in, for terms that parse it.
    """

    text: str
    language: str = "text"

    @property
    def reference_text(self) -> str:
        """The text itself."""
        return self.text


@dataclass(frozen=True)
class TokenTarget(Check):
    """Toy tasks: nothing is executed, the toy's reward reads the numbers.

    Args:
        data: whatever the toy needs, plain data.
    """

    data: tuple[int, ...] = field(default=())

    @property
    def numbers(self) -> tuple[int, ...]:
        """The data, as the toys read it."""
        return self.data

    def extract(
        self, text: str, wanted: Wanted | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """No program: the completion is numbers."""
        return None


def _require(check: Any, field: str, value: Any, is_right: bool, expected: str, remedy: str = "") -> None:
    if not is_right:
        raise ArgumentError(f"{type(check).__name__}.{field}", expected, value_text(value), remedy)


def _require_cases(check: Any) -> None:
    if isinstance(check.cases, list):
        object.__setattr__(check, "cases", tuple(check.cases))
    is_right = isinstance(check.cases, tuple) and len(check.cases) > 0
    _require(check, "cases", check.cases, is_right, "a tuple of at least one", "without any, every program would pass")


def _require_seconds(check: Any) -> None:
    seconds = check.timeout_seconds
    is_right = isinstance(seconds, int | float) and 0 < seconds < math.inf
    _require(check, "timeout_seconds", seconds, is_right, "a finite number of seconds above 0")


def _require_language(check: Any, known: Sequence[Language] = get_args(Language)) -> None:
    named, remedy = f"one of {', '.join(known)}", "a Sandbox Fusion server runs others"
    _require(check, "language", check.language, check.language in known, named, remedy)


def _is_json(value: object, is_expected: bool) -> bool:
    """Return whether every language reads a value from JSON in the same way; larger numbers are only expected."""
    if isinstance(value, dict):
        return not any(isinstance(key, tuple) for key in value) and _is_json([*value, *value.values()], is_expected)
    if isinstance(value, list | tuple):
        return all(_is_json(item, is_expected) for item in value)
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return is_expected or math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < (_MAX_EXPECTED if is_expected else 2**53)
    return value is None


def _is_expected(expected: object) -> bool:
    """Return whether a value is a text, or a tuple of texts."""
    accepted = expected if isinstance(expected, tuple) and expected else (expected,)
    return all(_is_text(text) for text in accepted)


def _is_text(text: object) -> bool:
    """Return whether a program can read or print a value: text that encodes as UTF-8, apart from escaped bytes."""
    if not isinstance(text, str):
        return False
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
