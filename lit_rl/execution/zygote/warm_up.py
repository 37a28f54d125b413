"""Work that an interpreter does on first use, done before the first fork.

The parser's tables, the types of syntax trees and many caches fill memory when they are first used, and code that ran
a few times is rewritten into a faster form. Before the fork this work is done once; after it, every program would pay
for it with its own copies of the pages. The sample program is ours: the zygote still sees nothing of other programs.
"""

from __future__ import annotations

import _socket
import json
import linecache
import marshal
import os
import sys

from lit_rl.execution.grading.grader import ReportingTestRunner, run_tests
from lit_rl.execution.grading.tests_side import TestsRpcLink
from lit_rl.execution.program_side import child
from lit_rl.execution.program_side.child import flush_streams
from lit_rl.execution.program_side.interpreter import reseed_random
from lit_rl.execution.program_side.serve import ProgramRpcLink
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.errors import describe_exception

_SAMPLE = """
import sys
from collections import defaultdict
from typing import List, Optional

class Base:
    limit = 3

class Solution(Base):
    def __init__(self, start=0):
        self.total = start

    @staticmethod
    def twice(x: int) -> int:
        return x * 2

    def count(self, items: List[int], *rest, key: Optional[int] = None, **options):
        seen, groups = set(), defaultdict(list)
        for i, item in enumerate(items):
            if item in seen or not item % 2 and i != 3:
                continue
            elif item >= 10:
                break
            seen.add(item)
            groups[item].append((i, item // 2, item / 2, item ** 2, -item))
            self.total += self.twice(item) - 1
        return sorted(groups.items(), key=lambda pair: pair[0])[::-1]

def pairs(n):
    while n > 0:
        n -= 1
        yield n, [x for x in range(n) if x & 1], {x: str(x) for x in range(n)}

def fails(value):
    try:
        return int(value) if value else None
    except (ValueError, TypeError) as error:
        raise RuntimeError("no number") from error
    finally:
        del value

def main():
    first = int(input())
    lines = " 3 1 2\\n4 5\\n".strip().split("\\n")
    numbers = [list(map(int, line.split())) for line in lines]
    total = sum(min(row) + max(row) + len(row) for row in numbers)
    assert total == 18, total
    print(total, *numbers[0], sep=" ")
    print(f"{total:4d} {total / 3:.2f} {total!r}", end="")
    print("".join(str(n) for n, *_ in pairs(3)), Solution(2).count([1, 2, 3]), fails("7"))

if __name__ == "__main__":
    main()
"""
_TIMES = 20

_GRADED = "def f(x):\n    if x > 3:\n        raise ValueError('too large')\n    return [x + 1]\n"
_TESTS = """
for i in range(3):
    try:
        assert f(i) == [i + 1]
        __lit_rl_passed__(0)
        __lit_rl_held__()
    except:
        __lit_rl_failed__(True)
try:
    f(4)
except ValueError:
    pass
"""
_TIMES_GRADED = 10


def warm_up_zygote() -> None:
    """Run a sample program and pass values as programs do; leave no other trace."""
    main, stdin, stdout = sys.modules["__main__"], sys.stdin, sys.stdout
    job = marshal.loads(marshal.dumps({"source": _SAMPLE}))
    inputs = os.memfd_create("lit_rl")
    os.pwrite(inputs, b"3\n" * _TIMES, 0)
    with open(inputs) as sys.stdin, open(os.devnull, "w") as sys.stdout:
        for _ in range(_TIMES):
            namespace = child.execute_as_module(job, "__main__")
            flush_streams()
            _warm_calls(namespace)
        _warm_grading()
    sys.stdin, sys.stdout = stdin, stdout
    sys.modules["__main__"] = main
    linecache.cache.clear()


def _warm_calls(namespace: child.Namespace) -> None:
    name, args = marshal.loads(marshal.dumps(("fails", ("x",))))
    try:
        child.find_function(namespace, name)(*args)
    except RuntimeError as error:
        json.loads(json.dumps(describe_exception(error)))
    plain.from_json_tree(json.loads(plain.dumps([1, 2.5, "a", None, True, (1, 2), {"k": [3]}])), list)


class _LoopbackChannel(Channel):
    """The tests' end of a connection whose other end, a server in this process, answers each line immediately."""

    server: ProgramRpcLink
    has_begun = False

    def send(self, text: str) -> None:
        """Send a line: the first line asks for names, all later lines are requests."""
        super().send(text)
        if self.has_begun:
            self.server.answer_request(self.server.receive())
        else:
            self.has_begun = True
            self.server.send(["names", self.server.describe_names(json.loads(self.server.channel.receive()))])


def _warm_grading() -> None:
    code = compile(_TESTS, "<test>", "exec")
    job = {"names": ("f",), "modules": {}, "calls_check": False}
    job |= {"check_line": None, "required": (0,), "runs": (), "entry_point": None}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for _ in range(_TIMES_GRADED):
        reseed_random(0)
        ours, theirs = _socket.socketpair()
        asking = _LoopbackChannel(ours.fileno())
        namespace = child.execute_as_module({"source": _GRADED}, "program")
        asking.server = ProgramRpcLink(Channel(theirs.fileno()), namespace, in_place=False)
        tests = TestsRpcLink(asking, in_place=False, allow_objects=False)
        result = run_tests(job, code, tests, ReportingTestRunner(Channel(nowhere), job, tests))
        ours.close()
        theirs.close()
        assert result["kind"] == "passed", result
    os.close(nowhere)
