"""Checks: plain data that says how a program is judged.

A check says what a correct program does; it never runs anything itself. Checks are small frozen dataclasses of plain
data, which can be pickled, compared, and sent to other processes and machines.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from lit_rl.errors import ArgumentError
from lit_rl.execution.interface import Check as Check
from lit_rl.execution.interface import require_transferable, wall_limit
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.languages import Language as Language
from lit_rl.execution.program import ExtractedProgram, Extraction, WantedProgram
from lit_rl.execution.wire.value_text import value_text

Compare = Literal["lines", "decimals", "tokens"]
COMPILE_SECONDS = 10.0
MAX_COMPILATIONS = 3
_MAX_EXPECTED = 10**sys.int_info.default_max_str_digits  # Python reads no larger int from a text
_OF_DRIVERS = "JSON values (arguments hold only integers below 2**53 and finite numbers, in C no lists and no dicts)"


@dataclass(frozen=True)
class AssertTests(Check):
    """Python test code that uses the program's functions: HumanEval's ``check(candidate)``, MBPP's asserts.

    Args:
        test: source of the tests. If ``entry_point`` is set and the source defines a function ``check``, the
            supervisor calls ``check(<entry point>)`` after the source has run.
        entry_point: the function under test; ``None`` for bare asserts.
        timeout_seconds: CPU seconds for the program and its tests together.
        in_place: let calls change the tests' lists, dicts and sets. If off, a call gets copies.
        allow_objects: let the program's classes decide ``==``, ``<``, ``bool`` and ``hash`` of their objects.
            Set this only for tests that need it: a class can claim to equal anything. If off, such an object
            equals only itself, and plain results of its operators may be no evidence (docs/sandbox.md, Asserts).
    """

    test: str
    entry_point: str | None = None
    timeout_seconds: float = 10.0
    in_place: bool = False
    allow_objects: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.calls:judge_asserts"

    def __post_init__(self) -> None:
        _check_fields(self, test=(isinstance(self.test, str), 'a text; join lines by "\\n"'))

    @property
    def num_tests(self) -> int:
        """Number of tests that can be counted without running them, at least one; docs/sandbox.md defines a test."""
        from lit_rl.execution.judging.asserts.prepared_tests import count_tests

        return max(1, count_tests(self.test, self.entry_point))

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds for the program and its tests, which share one limit."""
        return wall_limit(self.timeout_seconds)


@dataclass(frozen=True)
class CallTests(Check):
    """Calls of one function, each with the value that it must return; they are compared outside the program's process.

    Args:
        cases: ``((args, expected), ...)``: a tuple of positional arguments and the expected value, both plain
            data (None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict). Other languages than
            Python get JSON: tuples become lists, and keys of dicts become texts; C takes no lists and no dicts.
        entry_point: name of the function, or ``Class.method`` (not in C and Go), which is called on an instance that
            is built without arguments.
        timeout_seconds: CPU seconds for one case.
        tolerance: largest difference between floats, absolute or relative, that still counts as equal.
        as_json: compare as JSON stores values, at any depth: a tuple equals a list of the same items, and a key of a
            dict equals its text.
        in_list: also accept a list with the expected value as its only item.
        in_place: compare the expected value with the first argument after the call, not with the result.
        as_evalplus: compare as EvalPlus does, whatever else is set: values match if they are equal, or of the same type
            with numbers that differ by at most ``tolerance`` plus 1e-7 of the expected number. If ``tolerance`` is 0,
            1e-6 is used for an expected float, and for a flat list or tuple that holds only floats.
        language: what the program is written in.
        shared_timeout: give all cases together the seconds of one case.
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
        names = str(self.entry_point).split(".")
        is_function = all(map(str.isidentifier, names)) and (len(names) == 1 or self.language not in ("c", "go"))
        _check_fields(self, entry_point=(is_function, "a function or Class.method (in C and Go only a function)"))
        for index, case in enumerate(self.cases):
            is_call = isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple)
            wanted, remedy = "(arguments, expected) with a tuple of arguments", "write f(2) == 4 as ((2,), 4)"
            if is_call and self.language != "python":
                is_flat = self.language != "c" or not any(isinstance(one, list | tuple | dict) for one in case[0])
                is_call = is_flat and _is_portable_json(case[0], False) and _is_portable_json(case[1], True)
                wanted, remedy = f"{_OF_DRIVERS}, as language is {self.language}", ""
            if not is_call:
                raise ArgumentError(f"CallTests.cases[{index}]", wanted, value_text(case), remedy)
            for what, value in zip(("an argument", "the expected value"), case, strict=True):
                require_transferable(value, f"CallTests.cases[{index}]: {what}")

    @property
    def cpu_limit_factor(self) -> int:
        """Number by which ``timeout_seconds`` is multiplied to limit a whole program."""
        return 1 if self.shared_timeout else len(self.cases)

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds: one limit per case, and one per run of the compiler, which is retried."""
        compiling = 0.0 if self.language == "python" else MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)
        return self.cpu_limit_factor * wall_limit(self.timeout_seconds) + compiling


@dataclass(frozen=True)
class Checker:
    """A program that judges outputs by testlib's protocol, for tasks with many right outputs.

    A checker gets the names of three files as arguments: the input, the program's output, and the right answer. The
    exit status is 0 for a right output, 1 or 2 for a wrong output, 3 if the checker cannot tell, or 7 for points: the
    first line of its standard error is then ``points NUMBER``.

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
        _check_fields(self, ("python", "c", "cpp"), source=(bool(self.source.strip()), "the text of a program"))


@dataclass(frozen=True)
class StdioTests(Check):
    """Whole programs that read stdin and write stdout.

    Args:
        cases: ``((stdin, expected_stdout), ...)``; if the expected output is a tuple of texts, any of them is accepted.
        language: what the program is written in.
        timeout_seconds: CPU seconds for one case.
        compare: ``lines``: line by line, ignoring trailing white space. ``decimals``: line by line, ignoring white
            space at both ends; lines that differ still match if both hold the same numbers (``1.50 2`` and
            ``1.5 2.0``). ``tokens``: word by word, wherever lines end; numbers match if they have the same value
            or, unless both are integers, differ by at most ``tolerance``.
        tolerance: for ``tokens``, the largest difference that counts as equal: absolute, or relative to an
            expected number with a fraction or an exponent; only absolute if the expected number is an integer.
        checker: judges outputs in place of ``compare``; it must accept each expected output.
        grades: ``((name, number of cases), ...)``: groups of cases, in the order of ``cases``. The score of a group is
            that of its worst case: 1 if the case passed. If it failed, the score is 0 or, with a checker, the share of
            the expected output's points that the checker gave.
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
        rules, counts = get_args(Compare), dict(self.grades)
        is_whole = sum(counts.values()) == len(self.cases) and min(counts.values(), default=0) > 0
        _check_fields(
            self,
            compare=(self.compare in rules, f"one of {', '.join(rules)}"),
            grades=(
                not self.grades or (is_whole and len(counts) == len(self.grades)),
                f"different names, each with a number of cases, {len(self.cases)} cases together",
            ),
        )
        for index, case in enumerate(self.cases):
            if not (isinstance(case, tuple) and len(case) == 2 and _is_text(case[0]) and _is_text_or_texts(case[1])):
                wanted = "two texts (the second may be a tuple of accepted outputs)"
                raise ArgumentError(f"StdioTests.cases[{index}]", wanted, value_text(case))

    @property
    def defines(self) -> str | None:
        """Name of the main function, if the language requires one."""
        return LANGUAGES[self.language].main

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the groups of cases; only ``points`` if there is a checker and no group."""
        return tuple(name for name, _ in self.grades) or (() if self.checker is None else ("points",))

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds: a limit per case, per checked output, and per run of the compiler, which is retried."""
        compiled = [self.language, *([] if self.checker is None else [self.checker.language])]
        compiling = len(compiled) - compiled.count("python")
        checked = sum(1 if isinstance(expected, str) else len(expected) for _, expected in self.cases)
        checking = 0.0 if self.checker is None else 3 * checked * wall_limit(self.checker.timeout_seconds)
        return super().wall_budget_seconds + checking + compiling * MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)


UNIT_TESTS: tuple[Language, ...] = ("cpp", "javascript", "java", "go", "rust")
"""Languages with a driver for unit tests."""


@dataclass(frozen=True)
class UnitTests(Check):
    """Tests that are compiled with the program and share its process, as HumanEval-X and MultiPL-E have them.

    Use this check for evaluation: a secret, sent after the last test, proves a pass. A program that ends early fails,
    but a program that looks for the secret can send it. For training, use ``StdioTests`` or ``CallTests``.

    Args:
        test: source of the tests: a ``main`` in C++, ``Main.main`` in Java, statements in JavaScript, functions
            ``Test...`` in Go and functions marked ``#[test]`` in Rust.
        language: language of program and tests.
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
        _check_fields(self, UNIT_TESTS)

    @property
    def num_tests(self) -> int:
        """Always 1: tests that share a process pass together."""
        return 1

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds: one limit for all tests, and one per run of the compiler, which is retried if it fails."""
        return wall_limit(self.timeout_seconds) + MAX_COMPILATIONS * wall_limit(COMPILE_SECONDS)


@dataclass(frozen=True)
class ReferenceText(Check):
    """Check that runs nothing: reward terms compare the completion with a reference.

    Args:
        text: the reference.
        language: what the reference is written in, for terms that parse it.
    """

    text: str
    language: str = "text"

    @property
    def reference_text(self) -> str:
        return self.text


@dataclass(frozen=True)
class TokenTarget(Check):
    """The check of a toy task: no program runs; policy and reward read ``data`` and the sampled ids.

    Args:
        data: plain data that the toy task needs.
    """

    data: tuple[int, ...] = field(default=())

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.data

    def extract(
        self, text: str, wanted: WantedProgram | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """Return ``None``, because the completion consists of numbers and holds no program."""
        return None


def _check_fields(check: Any, languages: Sequence[str] = get_args(Language), **rules: tuple[bool, str]) -> None:
    """Raise ArgumentError for a field with which every program would pass, or none could.

    Args:
        check: its ``cases`` may be a list, which becomes a tuple.
        languages: the languages that the check takes.
        **rules: for each further field, by name: whether its value is right, and a description of right values.
    """
    if isinstance(getattr(check, "cases", None), list):
        object.__setattr__(check, "cases", tuple(check.cases))
    cases, seconds = getattr(check, "cases", ("",)), check.timeout_seconds
    rules |= {
        "cases": (isinstance(cases, tuple) and len(cases) > 0, "a tuple of at least one case"),
        "timeout_seconds": (
            isinstance(seconds, int | float) and 0 < seconds < math.inf,
            "a finite number of seconds above 0",
        ),
        "language": (check.language in languages, f"one of {', '.join(languages)}"),
    }
    for name, (is_right, expected) in rules.items():
        if not is_right:
            raise ArgumentError(f"{type(check).__name__}.{name}", expected, value_text(getattr(check, name)))


def _is_portable_json(value: object, is_expected: bool) -> bool:
    """Return whether all languages read a value from JSON alike; only expected values may hold larger numbers."""
    if isinstance(value, dict):
        return not any(isinstance(key, tuple) for key in value) and _is_portable_json(
            [*value, *value.values()], is_expected
        )
    if isinstance(value, list | tuple):
        return all(_is_portable_json(item, is_expected) for item in value)
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return is_expected or math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < (_MAX_EXPECTED if is_expected else 2**53)
    return value is None


def _is_text_or_texts(expected: object) -> bool:
    """Return whether a value is a text, or a tuple of texts."""
    accepted = expected if isinstance(expected, tuple) and expected else (expected,)
    return all(_is_text(text) for text in accepted)


def _is_text(text: object) -> bool:
    """Return whether a value is a text that a program can read or print: UTF-8, apart from escaped bytes."""
    if not isinstance(text, str):
        return False
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
