"""A compiled program, and the interface of a compiler."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lit_rl.execution.check_base import Language
from lit_rl.execution.outcome import Verdict


class CompilerFailed(RuntimeError):
    """The compiler failed for a reason of ours, which says nothing about the source."""


class Compiled(NamedTuple):
    """A program as the compiler left it.

    Args:
        binary: the executable; empty if there is none.
        verdict: why there is none.
        diagnostics: the compiler's, capped.
        line: of the first error.
    """

    binary: bytes
    verdict: Verdict | None = None
    diagnostics: str = ""
    line: int | None = None


class CompilesPrograms(Protocol):
    """A worker's compiler."""

    def compile(self, source: str, language: Language) -> Compiled:
        """The compiled program, or why there is none."""

    def close(self) -> None:
        """End what it started."""
