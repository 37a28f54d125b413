"""The sandbox's interface: checks, the outcomes of programs under a check, and the runner that judges programs.

Checks and outcomes travel pickled between the trainer and its supervisors, since both processes run our own code.
"""

from __future__ import annotations

import copy
import marshal
import pickle
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

from lit_rl.errors import ArgumentError, UsageError, short_repr
from lit_rl.execution.program import ExtractedProgram, Extraction, WantedProgram, extract_program
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.value_text import shorten_text
from lit_rl.signature_check import ArgumentChecks

_MAX_LINE_LENGTH = 100


class Verdict(StrEnum):
    """Result of judging a program. ``infrastructure_failure`` means that the program could not be judged.

    ``no_program`` means that nothing was run: there is no program, or the task only compares texts.
    """

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    EXCEPTION = "exception"
    SYNTAX_ERROR = "syntax_error"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    NO_PROGRAM = "no_program"
    INFRASTRUCTURE_FAILURE = "infrastructure_failure"


CHECKER_FAILED = "CheckerFailed"
"""Exception type in an outcome if the checker failed on the program's output; see ``Checker``."""


@dataclass(frozen=True)
class FailedCase:
    """The first case that did not pass. Each text has at most 500 characters, and is empty if it is not known.

    Texts are for readers and for feedback; no verdict depends on them. ``actual`` is what the program claims.

    Args:
        number: 1-based number of the case, in the order in which the cases ran.
        call: the call that was made, the standard input, or the source of the assert, as ``kind`` says.
        expected: the expected value or output; the source of the assert if it asks for more than equality with a value.
        actual: the value that came back, or what was printed.
        kind: which of these three ``call`` is.
    """

    number: int
    call: str = ""
    expected: str = ""
    actual: str = ""
    kind: Literal["call", "input", "assert"] = "call"

    def line(self, actual: str = "") -> str:
        """Return the case as one line of at most 100 characters.

        Args:
            actual: text to show if no value came back, such as the name of an exception.

        Example:
            >>> FailedCase(1, "f(3)", "5", "6").line()
            'f(3): 5, not 6'
        """
        call, expected, got = (" ".join(text.split()) for text in (self.call, self.expected, self.actual or actual))
        return shorten_text(f"{call}: {expected or 'nothing'}{f', not {got}' if got else ''}", _MAX_LINE_LENGTH)


@dataclass(frozen=True)
class Outcome:
    """Result of one program under one check.

    Args:
        verdict: the whole program's verdict; ``passed`` only if every case passed.
        cases: one verdict per test case that was started, in order.
        scores: score of each stage by name, in [0, 1] (only for checks with stages).
        stdout: tail of what the program printed.
        stderr: tail of its standard error, or our own message for an infrastructure failure.
        exception_type: name of the exception that ended the program, e.g. ``ZeroDivisionError``.
        line: 1-based line *of the program* in which it failed; ``None`` if the line is not known.
        cpu_seconds: CPU time of the program.
        wall_seconds: wall time of the program.
        robot_verdict: ``success``, ``completion_error``, ``robot_execution_error`` or ``python_error``
            (robot checks only).
        traces: one list of ``[kind, value1, value2]`` per robot test that was started.
        exception_message: text of the exception as the program reported it, at most 500 characters.
        failed_case: the first case that did not pass; ``None`` if no case was run or the failed case is not known.
        module_line: top-level line of a Python program that was running when an exception ended the program; ``None``
            if the program had run to its end and a call by the tests failed.
    """

    verdict: Verdict
    cases: tuple[Verdict, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""
    exception_type: str | None = None
    line: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    robot_verdict: str | None = None
    traces: tuple[tuple[Any, ...], ...] = ()
    exception_message: str = ""
    failed_case: FailedCase | None = None
    module_line: int | None = None

    @property
    def passed(self) -> bool:
        """True if every test ran to its end and passed."""
        return self.verdict is Verdict.PASSED


WALL_FACTOR = 3.0
WALL_SLACK_SECONDS = 1.0


def wall_limit(cpu_seconds: float) -> float:
    """Return the wall-clock limit, in seconds, of a program that may use ``cpu_seconds`` of CPU time."""
    return WALL_FACTOR * cpu_seconds + WALL_SLACK_SECONDS


class FaultyCheck(UsageError):
    """A check cannot judge any program; the fault is found before a program runs and holds for every program."""


class Check:
    """Plain data that says how a program is judged.

    A kind of check has two parts: a frozen dataclass that inherits from this class, and a judge. ``judged_by`` names
    the judge as ``"package.module:function"``. The process that judges calls ``function(client, program, check)``,
    which returns an ``Outcome``. That process must be able to import the module of the check: it searches the trainer's
    ``sys.path`` for the module, which should import from ``lit_rl.execution.checks``, not from ``lit_rl.execution``.
    ``docs/sandbox.md`` has an example.
    """

    judged_by: ClassVar[str] = ""

    @property
    def runs_program(self) -> bool:
        """True if judging the check runs a program. Otherwise only reward terms read the completion."""
        return bool(self.judged_by)

    @property
    def language(self) -> str:
        """Language of the completions."""
        return "python"

    @property
    def defines(self) -> str | None:
        """The function or class under test, which distinguishes the answer from a completion's other blocks."""
        return getattr(self, "entry_point", None)

    @property
    def num_tests(self) -> int:
        """Number of tests that can be passed one by one: the number of ``cases``; 0 for a check without ``cases``."""
        return len(getattr(self, "cases", ()))

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds that judging one program can take, with ``timeout_seconds`` of CPU time for each test."""
        return self.num_tests * wall_limit(getattr(self, "timeout_seconds", 0.0))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the scores in the outcomes of a check that judges in stages; empty for all other checks."""
        return ()

    @property
    def reference_text(self) -> str | None:
        """The text that reward terms compare a completion with, if the check brings one."""
        return None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The numbers that toy policies and toy rewards read instead of a text; ``None`` for all other tasks."""
        return None

    def extract(
        self, text: str, wanted: WantedProgram | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """Return a completion's program, or ``None`` if it has none; see :func:`lit_rl.execution.extract_program`."""
        return extract_program(text, wanted or WantedProgram(self.language, self.defines), extraction)


_ALWAYS_SERIALISABLE_BYTES = 200  # a value that marshal writes in fewer bytes, as most are, is within all limits
_WITHOUT_REFERENCES = 2  # a version of marshal in which a list that occurs twice is written twice


def require_transferable(value: Any, where: str) -> None:
    """Raise ValueError if a value is too large or too deep to be passed to a program or returned by one."""
    try:
        if len(marshal.dumps(value, _WITHOUT_REFERENCES)) < _ALWAYS_SERIALISABLE_BYTES:
            return
        is_marshalled = True
    except ValueError:
        is_marshalled = False  # a type that marshal does not know, or nested too deep
    try:
        if is_marshalled:
            plain.dumps(value)
        else:
            plain.loads(plain.dumps(copy.deepcopy(value)))  # a copy: an iterator is used up when it is written
    except (plain.NotCarried, RecursionError) as error:
        reason = plain.TOO_DEEP if isinstance(error, RecursionError) else error
        raise UsageError(f"{where} cannot be carried: {reason}") from None
    except TypeError:
        return  # a value that cannot be copied is not plain data, and equals no answer


def require_program_and_check(program: object, check: object) -> None:
    """Raise ArgumentError unless ``program`` is a text and ``check`` is a check; the two are easily swapped."""
    if not isinstance(program, str) or not isinstance(check, Check):
        given = f"{short_repr(program, 60)} and {short_repr(check, 60)}"
        remedy = "swap the two" if isinstance(program, Check) else ""
        remedy = "give its source" if hasattr(program, "source") else remedy
        raise ArgumentError("submit", "the text of a program, then a check such as AssertTests(...)", given, remedy)


class ProgramRunner(ArgumentChecks, ABC):
    """Runner that judges programs. A module takes a runner or a way to build one, and closes the runner it started."""

    @abstractmethod
    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Start judging a program; the future never raises for what the program does."""

    def judge_many(self, programs: Iterable[tuple[str, Check]]) -> list[Outcome]:
        """Judge several programs; return outcomes in the same order, or raise what ``submit`` and its futures raise."""
        return [future.result() for future in [self.submit(program, check) for program, check in programs]]

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file."""

    @property
    def is_running(self) -> bool:
        """True if the runner holds processes now; whoever started the runner closes it."""
        return False

    def reopen(self) -> None:
        """Allow judging again after ``close``; a runner that was not closed is left unchanged."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_HEADER = struct.Struct("=I")


def send_message(connection: socket.socket, message: Any) -> None:
    """Send a pickled message, preceded by its length; only the trainer and its supervisors talk this way."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    connection.sendall(_HEADER.pack(len(data)) + data)


def receive_message(connection: socket.socket) -> Any:
    """Return the next message."""
    (length,) = _HEADER.unpack(_receive_exactly(connection, _HEADER.size))
    return pickle.loads(_receive_exactly(connection, length))


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = connection.recv(min(length - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the other end hung up")
        data += chunk
    return bytes(data)
