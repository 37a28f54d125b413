"""The base class of all checks: what a check tells the code that handles it."""

from __future__ import annotations

import copy
import marshal
import math
from typing import Any, ClassVar, Literal, Self

from lit_rl.arguments import UsageError
from lit_rl.execution.program import ExtractedProgram, Extraction, Wanted, extract_program
from lit_rl.execution.wire import plain

Language = Literal["python", "c", "cpp"]

WALL_FACTOR = 3.0
WALL_SLACK_SECONDS = 1.0


def wall_limit(cpu_seconds: float) -> float:
    """Wall-clock limit, in seconds, of a program that may use this many CPU seconds."""
    return WALL_FACTOR * cpu_seconds + WALL_SLACK_SECONDS


class FaultyCheck(UsageError):
    """A check that cannot judge any program; found before a program runs, and the same for every program."""


class Check:
    """How a program is judged, as plain data, and how the check wants to be treated.

    A kind of check is a frozen dataclass that inherits from this class, and a judge. ``judged_by`` names the
    judge as ``"package.module:function"``; the function is called in the process that judges, as
    ``function(client, program, check)``, and returns an ``Outcome``. The module of a check must be importable
    there: it is found on the trainer's ``sys.path``, and takes what it needs of this package from
    ``lit_rl.execution.checks``, not from ``lit_rl.execution``. ``docs/sandbox.md`` has an example.
    """

    judged_by: ClassVar[str] = ""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Refuse a class that the process which judges could not import.

        Raises:
            ValueError: the class, or its judge, is defined in the script that runs.
        """
        if cls.judged_by and "__main__" in (cls.__module__, cls.judged_by.partition(":")[0]):
            raise UsageError(
                f"{cls.__name__} and its judge must be importable by the process that judges, got a definition in the "
                "script that runs (__main__): move both to a module beside it"
            )
        return super().__new__(cls)

    @property
    def runs_program(self) -> bool:
        """Whether judging it runs a program. Otherwise the completion is only read by reward terms."""
        return bool(self.judged_by)

    @property
    def language(self) -> str:
        """What completions are written in."""
        return "python"

    @property
    def defines(self) -> str | None:
        """The function or class under test, which tells the answer from the other blocks of a completion."""
        return getattr(self, "entry_point", None)

    @property
    def num_tests(self) -> int:
        """Number of tests that can be passed one by one: its ``cases``; 0 if the check is judged in another way."""
        return len(getattr(self, "cases", ()))

    @property
    def wall_budget_seconds(self) -> float:
        """Most wall seconds that judging one program can take: ``timeout_seconds`` of the CPU for each test."""
        return self.num_tests * wall_limit(getattr(self, "timeout_seconds", 0.0))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the scores in its outcomes, for checks that judge in stages."""
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
        self, text: str, wanted: Wanted | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """The program in a completion, or ``None`` if there is none; see :func:`lit_rl.execution.extract_program`."""
        return extract_program(text, wanted or Wanted(self.language, self.defines), extraction)


# Whatever marshal writes in fewer bytes is within all limits, as most values are; or within those of size.
_SURELY_CARRIED, _SURELY_SMALL = 200, 2_000_000
_WITHOUT_REFERENCES = 2  # a version of marshal in which a list that occurs twice is written twice


def require_carried(value: Any, where: str) -> None:
    """Raise ValueError if no program could return, or be given, a value: it is too large or too deep to be carried.

    Args:
        value: of a check.
        where: what it is, for the message.
    """
    try:
        num_bytes: float = len(marshal.dumps(value, _WITHOUT_REFERENCES))
    except ValueError:
        num_bytes = math.inf  # of another type, or nested too deep
    if num_bytes < _SURELY_CARRIED:
        return
    try:
        if num_bytes < _SURELY_SMALL:
            plain.to_tree(value, plain.forget)
        elif num_bytes < math.inf:
            plain.dumps(value)
        else:
            plain.loads(plain.dumps(copy.deepcopy(value)))  # a copy: an iterator is used up when it is written
    except plain.NotCarried as error:
        raise UsageError(f"{where} cannot be carried: {error}") from None
    except RecursionError:
        raise UsageError(f"{where} cannot be carried: {plain.TOO_DEEP}") from None
    except TypeError:
        return  # no copy can be made of it: it is not plain data, and equals no answer
