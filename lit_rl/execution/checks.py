"""How a program is judged, as plain data.

A check says what a correct program does; it never runs anything itself. Checks are small frozen
dataclasses of plain data: they pickle, compare and cross process and machine borders.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lit_rl.execution.check_base import Check, Language, wall_limit
from lit_rl.execution.program import ExtractedProgram, Extraction, Wanted, program_at
from lit_rl.simulators.robot_program import code_span

COMPILE_SECONDS = 10.0

__all__ = [
    "COMPILE_SECONDS",
    "AssertTests",
    "BuildAndRun",
    "CallTests",
    "Check",
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
        in_place: give the tests' lists, dicts and sets the content that a call left in them. Off, a call sees
            copies, as plain data does.
        allow_objects: let ``==``, ``<``, ``bool`` and ``hash`` of objects of the program's classes be what
            those classes say: only for tests that need it, for a class can say that it equals anything. Off,
            such an object equals itself alone; attributes and methods work in any case.
    """

    test: str
    entry_point: str | None = None
    timeout_seconds: float = 10.0
    in_place: bool = False
    allow_objects: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.asserts:judge_asserts"

    @property
    def defines(self) -> str | None:
        """The entry point."""
        return self.entry_point

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
        tuples_are_lists: a tuple where a list is expected is equal, and the other way round, at any depth.
        in_place: the first argument after the call is what must equal the expected value, not the result.
    """

    cases: tuple[tuple[tuple[Any, ...], Any], ...]
    entry_point: str
    timeout_seconds: float = 5.0
    tolerance: float = 0.0
    tuples_are_lists: bool = False
    in_place: bool = False

    judged_by: ClassVar[str] = "lit_rl.execution.judging.calls:judge_calls"

    @property
    def defines(self) -> str | None:
        """The entry point."""
        return self.entry_point

    @property
    def num_tests(self) -> int:
        """One a case."""
        return len(self.cases)

    @property
    def wall_budget_seconds(self) -> float:
        """A limit for each case."""
        return self.num_tests * wall_limit(self.timeout_seconds)


@dataclass(frozen=True)
class StdioTests(Check):
    """Whole programs that read stdin and write stdout.

    Args:
        cases: ``((stdin, expected_stdout), ...)``.
        language: what the program is written in.
        timeout_seconds: CPU seconds for one case.
    """

    cases: tuple[tuple[str, str], ...]
    language: Language = "python"
    timeout_seconds: float = 5.0

    judged_by: ClassVar[str] = "lit_rl.execution.judging.stdio:judge_stdio"

    @property
    def defines(self) -> str | None:
        """The main function, where the language has one."""
        return None if self.language == "python" else "main"

    @property
    def num_tests(self) -> int:
        """One a case."""
        return len(self.cases)

    @property
    def wall_budget_seconds(self) -> float:
        """A limit for each case, and one for the compiler."""
        compiling = 0.0 if self.language == "python" else wall_limit(COMPILE_SECONDS)
        return self.num_tests * wall_limit(self.timeout_seconds) + compiling


class RobotCheck(Check):
    """A service robot's program, run in simulated worlds; outcomes carry a ``robot_verdict``."""

    def extract(
        self, text: str, wanted: Wanted | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """The first Python block, or the whole text, as RoboEval reads completions."""
        start, end = code_span(text)
        return program_at(text, start, end, fenced=start > 0)


@dataclass(frozen=True)
class RobotTest:
    """One world and what must be true of the robot's trace in it (plain JSON data).

    Args:
        state: ``locations``, ``objects``, ``agents``, ``robot_location``.
        should_timeout: a time-out is no fault here; the check runs on the trace collected so far.
        check: formula over the trace, as JSON lists.
    """

    state: dict[str, Any]
    should_timeout: bool
    check: Any


@dataclass(frozen=True)
class RobotWorlds(RobotCheck):
    """Service-robot programs: ``task_program()`` is run in each world, its trace is checked.

    Args:
        tests: the worlds, run in order.
        timeout_seconds: CPU seconds for one world.
    """

    tests: tuple[RobotTest, ...]
    timeout_seconds: float = 1.0

    judged_by: ClassVar[str] = "lit_rl.execution.judging.robot_worlds:judge_robot_worlds"

    @property
    def num_tests(self) -> int:
        """One a world."""
        return len(self.tests)

    @property
    def wall_budget_seconds(self) -> float:
        """A limit for each world."""
        return self.num_tests * wall_limit(self.timeout_seconds)


@dataclass(frozen=True)
class InventedWorlds(RobotCheck):
    """Service-robot programs without a given world: each run makes one up, and the program must not contradict it.

    Args:
        num_worlds: runs, each in a new world.
        seed: of the worlds; the same seed and program give the same runs.
        timeout_seconds: CPU seconds for one run.

    Source:
        RoboSim: Hu et al. 2024, "Robo-Instruct", https://arxiv.org/abs/2405.20179 (100 runs of 2 s)
    """

    num_worlds: int = 100
    seed: int = 0
    timeout_seconds: float = 2.0

    judged_by: ClassVar[str] = "lit_rl.execution.judging.robot_worlds:judge_invented_worlds"

    @property
    def num_tests(self) -> int:
        """One a run."""
        return self.num_worlds

    @property
    def wall_budget_seconds(self) -> float:
        """A limit for each run."""
        return self.num_tests * wall_limit(self.timeout_seconds)


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
        compare_bytes: longest file, and most array data, that is read to compare.
        memory_bytes: address space of one process of build or run.
        readable: folders besides the system's toolchain that build and run may read.
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

    @property
    def language(self) -> str:
        """Missing lines are no program by themselves, whatever the file is written in."""
        return f"lines of {self.file}"

    @property
    def wall_budget_seconds(self) -> float:
        """A build and a run of the completion; before the first one of a tree also of the tree itself, and
        a build without the masked lines.
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


def _count_asserts(test: str) -> int:
    """Asserts at the top of a test's source and of its function ``check``; 0 if it does not compile."""
    try:
        module = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    functions = (part for part in module if isinstance(part, ast.FunctionDef) and part.name == "check")
    statements = [*module, *(statement for function in functions for statement in function.body)]
    return sum(isinstance(statement, ast.Assert) for statement in statements)
