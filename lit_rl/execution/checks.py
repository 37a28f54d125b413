"""How a program is judged, as plain data.

A check says what a correct program does; it never runs anything itself. Checks are small frozen
dataclasses of plain data: they pickle, compare and cross process and machine borders.
"""

from __future__ import annotations

import ast
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from lit_rl.execution.check_base import (
    Check,
    Language,
    require_carried,
    require_count,
    require_items,
    require_not_negative,
    require_one_of,
    require_seconds,
    require_switch,
    shown,
    wall_limit,
)
from lit_rl.execution.confinement.visible_files import is_inside
from lit_rl.execution.program import ExtractedProgram, Extraction, Wanted
from lit_rl.execution.robot_checks import InventedWorlds, RobotCheck, RobotTest, RobotWorlds

Compare = Literal["lines", "decimals", "tokens"]
COMPILE_SECONDS = 10.0
MOST_COMPILATIONS = 3
_MOST_COMPARED = 96 << 20  # bytes of a plotfile, so that a supervisor reads it within its own limits
_LONG_TEST = 1_500_000
_DEEP = 100
_LARGE_FACTOR = re.compile(r"\*\s*\d[\d_]{5}")
_DEEP_LITERAL = re.compile(r"(?:[\[({][^\[\](){}\n]{0,9}){99}")

__all__ = [
    "COMPILE_SECONDS",
    "MOST_COMPILATIONS",
    "AssertTests",
    "BuildAndRun",
    "CallTests",
    "Check",
    "Compare",
    "InventedWorlds",
    "Language",
    "ReferenceText",
    "RobotCheck",
    "RobotTest",
    "RobotWorlds",
    "StdioTests",
    "TokenTarget",
]


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
            only itself; attributes and methods always work.
    """

    test: str
    entry_point: str | None = None
    timeout_seconds: float = 10.0
    in_place: bool = False
    allow_objects: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.calls:judge_asserts"

    def __post_init__(self) -> None:
        require_seconds(self, "timeout_seconds")
        require_switch(self, "in_place", "allow_objects")
        if _may_hold_large(self.test):
            from lit_rl.execution.judging.assert_plan import plan_asserts  # rarely needed, and slow to import

            plan = plan_asserts(self.test, self.entry_point)
            for number, assertion in enumerate(plan.assertions if plan else (), 1):
                require_carried(assertion.literal(), f"AssertTests.test: the value of assert {number}")

    @property
    def num_tests(self) -> int:
        """Asserts that can be counted without running the tests, at least one."""
        return max(1, _count_asserts(self.test))

    @property
    def wall_budget_seconds(self) -> float:
        """Program and tests share one limit."""
        return wall_limit(self.timeout_seconds)


@dataclass(frozen=True)
class CallTests(Check):
    """Calls of one function with the value each must return, compared outside the program's process.

    Args:
        cases: ``((args, expected), ...)``: a tuple of positional arguments and the expected value, both plain
            data (None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict).
        entry_point: name of the function, or ``Class.method`` (the instance is built without arguments).
        timeout_seconds: CPU seconds for one case.
        tolerance: largest difference between floats, absolute or relative, that still counts as equal.
        tuples_are_lists: a tuple equals a list of the same items, at any depth.
        in_place: compare the expected value with the first argument after the call, not with the result.
    """

    cases: tuple[tuple[tuple[Any, ...], Any], ...]
    entry_point: str
    timeout_seconds: float = 5.0
    tolerance: float = 0.0
    tuples_are_lists: bool = False
    in_place: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.calls:judge_calls"

    def __post_init__(self) -> None:
        require_items(self, "cases")
        require_seconds(self, "timeout_seconds")
        require_not_negative(self, "tolerance")
        require_switch(self, "tuples_are_lists", "in_place")
        if not all(part.isidentifier() for part in str(self.entry_point).split(".")):
            raise ValueError(f"CallTests.entry_point must be a function or Class.method, got {self.entry_point!r}")
        for index, case in enumerate(self.cases):
            if not (isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple)):
                raise ValueError(
                    f"CallTests.cases[{index}] needs a tuple of arguments and the expected value, got {shown(case)}"
                )
            require_carried(case[0], f"CallTests.cases[{index}]: an argument")
            require_carried(case[1], f"CallTests.cases[{index}]: the expected value")


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
    """

    cases: tuple[tuple[str, str | tuple[str, ...]], ...]
    language: Language = "python"
    timeout_seconds: float = 5.0
    compare: Compare = "lines"
    tolerance: float = 1e-6

    judged_by: ClassVar[str] = "lit_rl.execution.judging.stdio:judge_stdio"

    def __post_init__(self) -> None:
        require_items(self, "cases")
        require_one_of(self, "language", get_args(Language))
        require_seconds(self, "timeout_seconds")
        require_one_of(self, "compare", get_args(Compare))
        require_not_negative(self, "tolerance")
        for index, case in enumerate(self.cases):
            if not (isinstance(case, tuple) and len(case) == 2 and _is_text(case[0]) and _is_expected(case[1])):
                raise ValueError(
                    f"StdioTests.cases[{index}] needs two texts (or a tuple of accepted outputs as the second), "
                    f"got {shown(case)}"
                )

    @property
    def defines(self) -> str | None:
        """The main function, where the language has one."""
        return None if self.language == "python" else "main"

    @property
    def wall_budget_seconds(self) -> float:
        """One limit per case and per run of the compiler, which is retried when it fails."""
        compiling = 0.0 if self.language == "python" else MOST_COMPILATIONS * wall_limit(COMPILE_SECONDS)
        return super().wall_budget_seconds + compiling


@dataclass(frozen=True)
class BuildAndRun(Check):
    """Masked lines of a file in a source tree: completed, then judged by building, running and comparing.

    Each stage has a score in [0, 1] and a weight; where one fails, those after it score 0. The reference
    output is what the unchanged tree writes. The tree itself is never written to.

    Args:
        tree: folder of the source tree.
        file: path in it of the file whose lines are masked.
        first_line: first masked line, 1-based.
        last_line: last masked line.
        build: shell command, run in a copy of the tree; a good build prints ``success_text`` in its last line.
        run: shell command, run after a good build.
        outputs: plotfiles (folders) that a good run leaves, each with a ``Header``.
        variable: the array in them that is compared.
        success_text: see ``build``.
        weights: of the stages ``compilation``, ``execution``, ``header_bleu``, ``density``; any scale.
        build_seconds: wall seconds for one build.
        run_seconds: wall seconds for one run.
        compare_bytes: most bytes that are read of one plotfile, at most 96 MiB.
        memory_bytes: address space of one process of build or run.
        readable: folders besides the system's toolchain that build and run may read; the tree itself is hidden
            wherever it lies, and so is the history of its version control.
        environment: further variables for build and run.
    """

    tree: str
    file: str
    first_line: int
    last_line: int
    build: str = "make -j2"
    run: str = "./blast"
    outputs: tuple[str, ...] = ("plt00001", "plt00002", "plt00003", "plt00004", "plt00005")
    variable: str = "density"
    success_text: str = "SUCCESS"
    weights: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25)
    build_seconds: float = 120.0
    run_seconds: float = 60.0
    compare_bytes: int = 64 << 20
    memory_bytes: int = 4 << 30
    readable: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    judged_by: ClassVar[str] = "lit_rl.execution.judging.build:judge_build_and_run"

    def __post_init__(self) -> None:
        require_seconds(self, "build_seconds", "run_seconds")
        require_count(self, "first_line", "compare_bytes", "memory_bytes")
        if self.last_line < self.first_line - 1:
            raise ValueError(f"BuildAndRun.last_line must not be before first_line, got {self.last_line}")
        if self.compare_bytes > _MOST_COMPARED:
            raise ValueError(f"BuildAndRun.compare_bytes must be at most {_MOST_COMPARED}, got {self.compare_bytes}")
        tree = os.path.realpath(self.tree)
        for path in self.readable:
            if is_inside(os.path.realpath(path), tree):
                raise ValueError(f"BuildAndRun.readable must lie outside its tree, got {path}: copy it elsewhere")
        if len(self.weights) != 4 or min(self.weights) < 0 or not 0 < sum(self.weights) < math.inf:
            raise ValueError(
                f"BuildAndRun.weights must be four numbers of at least 0 and not all 0, got {self.weights}"
            )

    @property
    def language(self) -> str:
        """Missing lines are not a program by themselves, whatever the file is written in."""
        return f"lines of {self.file}"

    @property
    def wall_budget_seconds(self) -> float:
        """A build and a run of the completion; the first time also of the unchanged tree, and a build of it
        without the masked lines.
        """
        return 3 * self.build_seconds + 2 * self.run_seconds

    @property
    def stages(self) -> tuple[str, ...]:
        """The weighted stages and their mean."""
        return ("compilation", "execution", "header_bleu", "density", "total")


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


def _is_expected(expected: object) -> bool:
    """Whether this is a text, or a tuple of texts."""
    accepted = expected if isinstance(expected, tuple) and expected else (expected,)
    return all(_is_text(text) for text in accepted)


def _is_text(text: object) -> bool:
    """Whether a program can read or print this: text that encodes as UTF-8, apart from escaped bytes."""
    if not isinstance(text, str):
        return False
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _may_hold_large(test: str) -> bool:
    """Whether a test may hold a literal value that cannot be carried; quick for the many that do not."""
    if len(test) > _LONG_TEST or ("*" in test and _LARGE_FACTOR.search(test)):
        return True
    return sum(map(test.count, "[({")) >= _DEEP and _DEEP_LITERAL.search(test) is not None


def _count_asserts(test: str) -> int:
    """Asserts at the top of a test's source and of its function ``check``; 0 if it does not compile."""
    try:
        module = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    functions = (part for part in module if isinstance(part, ast.FunctionDef) and part.name == "check")
    statements = [*module, *(statement for function in functions for statement in function.body)]
    return sum(isinstance(statement, ast.Assert) for statement in statements)
