"""Make programs that write garbage to everything they can write to, and garbage messages for the parsers.

See benchmarks/sandbox_stress.py, which judges them. A parser returns a value or raises ``NotPlain``; a program that
writes garbage is wrong whatever it writes.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import AssertTests, CallTests, StdioTests, Verdict
from lit_rl.execution.judging.calls import CallAnswers
from lit_rl.execution.wire import plain, program_messages
from lit_rl.execution.wire.bounded_json import NotPlain, parse_bounded_json

PARSERS: dict[str, Callable[[bytes], Any]] = {
    "JSON": parse_bounded_json,
    "value": plain.loads,
    "description": program_messages.parse_exception_description,
    "hosted": program_messages.parse_hosted_message,
    "result": program_messages.parse_grader_result,
    "answers": lambda line: CallAnswers(
        b"{}\n" + line + b"\n", 1, None, lambda error: Verdict.EXCEPTION
    ).verdicts_of_calls(CALLS),
}
TAGS = [*"ltsSfFdbBicrqITko", "Decimal", "Fraction", "Counter", "OrderedDict", "defaultdict", "items", "values"]
TAGS += ["fields", "datetime", "date", "time", "timedelta", "timezone", "path", "array", "constant", "StringIO"]
TAGS += ["BytesIO", "ndarray", "numpy", "array of", "plain", "call", "end", "value", "error", "do", "names", "failed"]
LEAVES: list[Any] = [None, True, 0, 1, -1, 2**63, 10**30, 0.5, 1e308, "", "a", "0x0", "0xff", "1e99999", "NaN", "<i8"]
LEAVES += ["\ud800", "say"]
VALID = [
    '["l",1,["t",2.5,"a"]]', '["d","k",["s",1,2]]', '["Fraction","0x1","0x3"]', '["Decimal","1.5"]',
    '["datetime","2020-01-02T03:04:05",0]', '["ndarray","<i8",["l",2],["l",1,2]]', '["fields","P",["l","x"],["l",1]]',
    '{"stage":"run","types":["ValueError"],"message":"","line":1}', '["call","say",["t","hi"],["d"]]', '["end",null]',
    '["end",{"types":["E"],"message":"m","line":1}]', '["value",["l",1],[]]', '["names",{"f":["function"]},[]]',
    '["do","getattr",0,["x"],{},[]]', '["error",{"types":["E"],"number":3,"class":5,"args":["t"],"text":""},[]]',
    '{"kind":"passed","secret":"00","number":1,"num_bytes":1}',
]  # fmt: skip

RIGHT = "def f(x):\n    return [x, x * 2]\n"
WRONG = "def f(x):\n    return [x, x * 3]\n"
RAISES = "def f(x):\n    raise KeyError(x)\n"
CALLS = CallTests((((1,), [1, 2]), ((5,), [5, 10])), "f", 0.5)
LITERAL = AssertTests("assert f(1) == [1, 2]\nassert f(5) == [5, 10]\n", None, 0.5)
GRADED = AssertTests(
    "def check(candidate):\n    for i in (1, 5):\n        assert candidate(i) == [i, 2 * i]\n", "f", 0.5
)
STDIO = StdioTests((("4\n", "8 4 8 4 8\n"),), timeout_seconds=0.5)
WORLD = {"locations": ["hall"], "objects": {}, "agents": {}, "robot_location": "hall"}
ROBOT = RobotWorlds((RobotTest(WORLD, False, ["exists", "trace", ["Say", "hi there"]]),), 0.5)
CHECKS = [CALLS, LITERAL, GRADED, STDIO, ROBOT]
HONEST = [
    *[(source, check, verdict) for check in (CALLS, LITERAL, GRADED) for source, verdict in
      ((RIGHT, Verdict.PASSED), (WRONG, Verdict.WRONG_ANSWER), (RAISES, Verdict.EXCEPTION))],
    ("n = input()\nprint(int(n) * 2, n, 8, 4, 8)\n", STDIO, Verdict.PASSED),
    ("print(8)\n", STDIO, Verdict.WRONG_ANSWER),
    ("print(", STDIO, Verdict.SYNTAX_ERROR),
    ("import os\nos.makedirs('a/b')\nopen('a/b/c', 'w')\n" + RIGHT, CALLS, Verdict.PASSED),
    ("def task_program():\n    say('hi there')\n", ROBOT, Verdict.PASSED),
    ("def task_program():\n    say('hi')\n", ROBOT, Verdict.WRONG_ANSWER),
]  # fmt: skip

# Code that writes garbage. ``GARBAGE`` is a list of bytes; none of it ever gives a right answer.
_EVERYWHERE = """
import os, sys
GARBAGE = {garbage!r}
def spill():
    for descriptor in range({first}, 70):
        for piece in GARBAGE:
            try:
                os.write(descriptor, piece)
            except OSError:
                break
"""
_INSTEAD = """
import sys
GARBAGE = {garbage!r}
turn = [0]
def garbage(*arguments, **options):
    turn[0] += 1
    return GARBAGE[turn[0] % len(GARBAGE)].decode('utf-8', 'surrogateescape').replace(chr(10), '')
for name, attribute in (('plain', 'dumps'), ('plain', 'to_json_tree'), ('link', 'encode'), ('plain', '_ENCODE')):
    module = sys.modules.get('lit_rl.execution.wire.' + name)
    if module is not None and {chosen!r} in (name, 'all'):
        setattr(module, attribute, garbage)
"""
_ENDS = [
    "",
    "spill()\n",
    "spill()\nimport os\nos._exit({status})\n",
    "spill()\nwhile True: pass\n",
    "raise Exception(chr(27))\n",
]


def tree(rng: random.Random, depth: int = 4) -> Any:
    """Return a random JSON tree, mostly in the shape of a value."""
    chance = rng.random()
    if depth == 0 or chance < 0.3:
        return rng.choice([*LEAVES, rng.getrandbits(70), "".join(rng.choices(string.printable, k=rng.randrange(9)))])
    parts = [tree(rng, depth - 1) for _ in range(rng.randrange(5))]
    if chance < 0.9:
        return [rng.choice(TAGS), *parts]
    return parts if chance < 0.95 else {str(rng.choice(LEAVES)): part for part in parts}


def message(rng: random.Random) -> bytes:
    """Return one line: a random tree, bytes, a valid message with faults, or something very large."""
    kind = rng.randrange(10)
    if kind < 3:
        return json.dumps(tree(rng)).encode()
    if kind < 4:
        return rng.randbytes(rng.randrange(60))
    if kind < 5:
        piece = rng.choice([b"[", b'["l",', b'"', b"9", b"\n", b"{}\n", b',["l"]', b"\\", b'{"":', b"\x00", b"[]\n"])
        return piece * rng.choice([10, 1000, 100_000])
    line = bytearray(rng.choice(VALID).encode())
    for _ in range(rng.randrange(4)):
        start = rng.randrange(len(line) + 1)
        end = min(len(line), start + rng.randrange(8))
        line[start:end] = rng.choice(
            [b"", b"null", b"[", b"]", b"-1", b'"', b"{}", b"1e400", b"9" * 30, rng.randbytes(3)]
        )
    return bytes(line)


def garbage_program(rng: random.Random, check: Any) -> str:
    """Return a program that writes garbage in place of its messages and is wrong whatever it writes."""
    garbage = [message(rng) + rng.choice([b"\n", b"\n", b""]) for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.5:
        source = _EVERYWHERE.format(garbage=garbage, first=rng.choice([0, 1, 3, 4]))
    else:
        source = _INSTEAD.format(garbage=garbage, chosen=rng.choice(["plain", "link", "all"])) + "def spill(): pass\n"
    end = rng.choice(_ENDS).format(status=rng.choice([0, 1, 41]))
    if check is STDIO:
        return source + (end or "spill()\n")
    if check is ROBOT:
        calls = rng.choice(["say('hi')", "ask(GARBAGE, 1, spill)", "say(GARBAGE)", "go_to(*GARBAGE)"])
        return f"{source}def task_program():\n    spill()\n    {calls}\n" + (end if rng.random() < 0.3 else "")
    results = [
        *("None", "GARBAGE", "spill", "iter(GARBAGE)", "...", "{spill: GARBAGE}", "10 ** 5000", "1 / 0"),
        *("type('Fraction', (), {'__module__': 'fractions'})()", "type(chr(27) * 9, (Exception,), {})"),
    ]
    return f"{source}def f(x):\n    spill()\n    return {rng.choice(results)}\n" + (end if rng.random() < 0.4 else "")


def fuzz_parsers(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """Return the faults of the parsers on ``number`` random messages."""
    for _ in range(number):
        line = message(rng)
        for name, read in PARSERS.items():
            try:
                value = read(line)
                if name == "answers" and Verdict.INFRASTRUCTURE_FAILURE in value:
                    yield {"parser": name, "line": repr(line), "error": str(value)}
            except NotPlain:
                pass
            except Exception as error:
                yield {"parser": name, "line": repr(line), "error": repr(error)}
