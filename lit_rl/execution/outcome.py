"""Outcomes: everything that the sandbox says about a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from lit_rl.execution.wire.value_text import shortened

_LONGEST_LINE = 100


class Verdict(StrEnum):
    """How a program ended. All but the last are about the program; the last is a failure of ours.

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


@dataclass(frozen=True)
class FailedCase:
    """The first case that did not pass. Each text has at most 500 characters, and is empty if it is not known.

    Texts are for readers and for feedback; no verdict depends on them. ``actual`` is what the program claims.

    Args:
        number: 1-based number of the case, in the order in which they ran.
        call: the call that was made, the standard input, or the source of the assert, as ``kind`` says.
        expected: the expected value or output, or the source of an assert that asks for something else.
        actual: the value that came back, or what was printed.
        kind: what ``call`` is.
    """

    number: int
    call: str = ""
    expected: str = ""
    actual: str = ""
    kind: Literal["call", "input", "assert"] = "call"

    def line(self, actual: str = "") -> str:
        """The case in one line of at most 100 characters.

        Args:
            actual: what to name where no value came back, such as an exception.

        Example:
            >>> FailedCase(1, "f(3)", "5", "6").line()
            'f(3): 5, not 6'
        """
        call, expected, got = (" ".join(text.split()) for text in (self.call, self.expected, self.actual or actual))
        return shortened(f"{call}: {expected or 'nothing'}{f', not {got}' if got else ''}", _LONGEST_LINE)


@dataclass(frozen=True)
class Outcome:
    """How one program ended under one check.

    Args:
        verdict: the whole program's verdict; ``passed`` only if every case passed.
        cases: one verdict per test case that was started, in order.
        scores: graded stages by name, each in [0, 1] (checks with stages only).
        stdout: tail of what the program printed.
        stderr: tail of its standard error, or our own message for an infrastructure failure.
        exception_type: name of the exception that ended it, e.g. ``ZeroDivisionError``.
        line: 1-based line *in the program* where it failed, where that is known.
        cpu_seconds: CPU time of the program.
        wall_seconds: wall time of the program.
        robot_verdict: ``success``, ``completion_error``, ``robot_execution_error`` or ``python_error``
            (robot checks only).
        traces: one list of ``[kind, value1, value2]`` per robot test that was started.
        exception_message: text of that exception as the program reported it, at most 500 characters.
        failed_case: the first case that did not pass, if the program got as far as a case and that is known.
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

    @property
    def passed(self) -> bool:
        """Whether every test ran to its end and passed."""
        return self.verdict is Verdict.PASSED
