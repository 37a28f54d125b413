"""The conversation of a graded test, held once before the first fork, with both ends in this process."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable

from lit_rl.execution.grading.grader import result_of_tests
from lit_rl.execution.grading.tests_side import TestsSide
from lit_rl.execution.program_side import child
from lit_rl.execution.program_side.serve import Server
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.zygote.randomness import draw_anew

_PROGRAM = "def f(x):\n    if x > 3:\n        raise ValueError('too large')\n    return [x + 1]\n"
_TESTS = """
for i in range(3):
    assert f(i) == [i + 1]
    __lit_rl_passed__(0)
try:
    f(4)
except ValueError:
    pass
"""
_TIMES = 10


class _Line(Channel):
    """One end: what is sent waits at the other, where a server answers it at once."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.lines: deque[bytes] = deque()
        self.other = self
        self.answer: Callable[[], None] | None = None

    def send(self, text: str) -> None:
        """Hand a line to the other end."""
        self.other.lines.append(text.encode())
        if self.answer is not None:
            self.answer()

    def receive(self) -> bytes:
        """The next line."""
        return self.lines.popleft()


def warm_grading() -> None:
    """Judge a small program by small tests a few times."""
    code = compile(_TESTS, "<test>", "exec")
    job = {"names": ("f",), "modules": {}, "calls_check": False}
    job |= {"check_line": None, "required": (0,), "runs": (), "entry_point": None}
    for _ in range(_TIMES):
        draw_anew(0)
        ours, theirs = _Line(), _Line()
        ours.other, theirs.other = theirs, ours
        ours.answer = _answers(Server(theirs, child.execute({"source": _PROGRAM}, "program"), in_place=False), theirs)
        result = result_of_tests(job, code, TestsSide(ours, in_place=False, allow_objects=False), {})
        if result["kind"] != "passed":
            raise RuntimeError(f"the sample of a graded test gave {result}")


def _answers(server: Server, line: _Line) -> Callable[[], None]:
    """Answers the first line with names, the others as requests."""
    told: list[bool] = []

    def answer() -> None:
        if told:
            server.answer(server.receive())
        else:
            told.append(True)
            server.send(["names", server.names(json.loads(line.receive()))])

    return answer
