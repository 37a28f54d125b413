"""Programs that completions decide and that take their time, asleep or at work. Found by the sandbox's workers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from lit_rl.execution.checks import StdioTests
from lit_rl.execution.program import ExtractedProgram


@dataclass(frozen=True)
class Sleeping(StdioTests):
    """Runs the program that a completion stands for.

    Args:
        seconds: that it takes.
        at_work: it computes for as long, instead of sleeping, and takes a core.
    """

    seconds: float = 0.0
    at_work: bool = False

    def source(self, text: str) -> str:
        """Another program for each completion; half of them pass."""
        wait = (
            f"while time.process_time() < {self.seconds}:\n    pass" if self.at_work else f"time.sleep({self.seconds})"
        )
        return f"import time\n\nseed = {zlib.crc32(text.encode())}\n{wait}\nprint(seed % 2)\n"

    def extract(self, text: str, *_: Any) -> ExtractedProgram:
        """See :meth:`source`."""
        return ExtractedProgram(self.source(text), 0, len(text.encode()), False)


def sleeping(seconds: float, at_work: bool = False) -> Sleeping:
    """The check of programs that take this long."""
    return Sleeping((("", "0\n"),), seconds=seconds, at_work=at_work)
