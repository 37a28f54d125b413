"""Programs that completions decide and that sleep: slow without taking a core. Found by the sandbox's workers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from lit_rl.execution.checks import StdioTests
from lit_rl.execution.program import ExtractedProgram


def source(text: str, seconds: float) -> str:
    """Another program for each text; half of them pass."""
    return f"import time\n\nseed = {zlib.crc32(text.encode())}\ntime.sleep({seconds})\nprint(seed % 2)\n"


@dataclass(frozen=True)
class Sleeping(StdioTests):
    """Runs the program that a completion stands for.

    Args:
        seconds: that it sleeps.
    """

    seconds: float = 0.0

    def extract(self, text: str, *_: Any) -> ExtractedProgram:
        """See :func:`source`."""
        return ExtractedProgram(source(text, self.seconds), 0, len(text.encode()), False)


def sleeping(seconds: float) -> Sleeping:
    """The check of programs that sleep this long."""
    return Sleeping((("", "0\n"),), seconds=seconds)
