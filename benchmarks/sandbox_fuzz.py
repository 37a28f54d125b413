"""Throw garbage at everything that a program can write to, and check that only that program is hurt.

``python benchmarks/sandbox_fuzz.py --minutes 30 --seed 0 [--num-workers 2] [--failures fuzz_failures.jsonl]``.
Each round is made from the seed and its number alone. It hands messages to the parsers in this process, then
judges a batch of programs in a sandbox: some write garbage to all their descriptors or in place of their
messages, the others are honest and right or wrong. What must hold: a parser returns a value or raises
``NotPlain``; a program that writes garbage neither passes nor becomes an infrastructure failure; each honest
program gets its verdict; no supervisor ever takes more than 300 MB. What does not hold is written, with seed and
round, as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import AssertTests, CallTests, Outcome, Sandbox, StdioTests, Verdict
from lit_rl.execution.judging.calls import Answers
from lit_rl.execution.wire import plain, program_messages
from lit_rl.execution.wire.bounded_json import NotPlain, parse

MOST_MEGABYTES = 300
PARSERS: dict[str, Callable[[bytes], Any]] = {
    "JSON": parse,
    "value": plain.loads,
    "description": program_messages.read_description,
    "hosted": program_messages.read_hosted,
    "result": program_messages.read_result,
    "answers": lambda line: Answers(b"{}\n" + line + b"\n", 1, None, lambda error: Verdict.EXCEPTION).of_calls(CALLS),
}
TAGS = [*"ltsSfFdbBicrqITko", "Decimal", "Fraction", "Counter", "OrderedDict", "defaultdict", "items", "values"]
TAGS += ["fields", "datetime", "date", "time", "timedelta", "timezone", "path", "array", "constant", "StringIO"]
TAGS += ["BytesIO", "ndarray", "numpy", "array of", "plain", "call", "end", "value", "error", "do", "names", "failed"]
LEAVES = [
    None,
    True,
    0,
    1,
    -1,
    2**63,
    10**30,
    0.5,
    1e308,
    "",
    "a",
    "0x0",
    "0xff",
    "1e99999",
    "NaN",
    "<i8",
    "\ud800",
    "say",
]
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
HONEST = [
    *[(source, check, verdict) for check in (CALLS, LITERAL, GRADED)
      for source, verdict in ((RIGHT, "passed"), (WRONG, "wrong_answer"), (RAISES, "exception"))],
    ("n = input()\nprint(int(n) * 2, n, 8, 4, 8)\n", STDIO, "passed"),
    ("print(8)\n", STDIO, "wrong_answer"),
    ("def task_program():\n    say('hi there')\n", ROBOT, "passed"),
    ("def task_program():\n    say('hi')\n", ROBOT, "wrong_answer"),
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
for name, attribute in (('plain', 'dumps'), ('plain', 'to_tree'), ('link', 'encode'), ('plain', '_ENCODE')):
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
    """A random JSON tree, mostly of the shape of a value."""
    chance = rng.random()
    if depth == 0 or chance < 0.3:
        return rng.choice([*LEAVES, rng.getrandbits(70), "".join(rng.choices(string.printable, k=rng.randrange(9)))])
    parts = [tree(rng, depth - 1) for _ in range(rng.randrange(5))]
    if chance < 0.9:
        return [rng.choice(TAGS), *parts]
    return parts if chance < 0.95 else {str(rng.choice(LEAVES)): part for part in parts}


def message(rng: random.Random) -> bytes:
    """One line: a random tree, bytes, a valid message with faults, or something very large."""
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
    """A program that writes garbage in place of its messages and is wrong whatever it writes."""
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
    """Faults of the parsers on ``number`` random messages."""
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


def fuzz_sandbox(rng: random.Random, sandbox: Sandbox, number: int, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    """Faults of a sandbox on a batch of ``number`` programs that write garbage, among as many honest ones."""
    checks = [CALLS, LITERAL, GRADED, STDIO, ROBOT]
    batch: list[tuple[str, Any, str | None]] = []
    for _ in range(number):
        check = rng.choice(checks)
        batch.append((garbage_program(rng, check), check, None))
        source, check, expected = rng.choice(HONEST)
        # With time to spare: the fault to find is garbage that hurts a neighbour, not a machine at its limits.
        batch.append((source, replace(check, timeout_seconds=10.0), expected))
    outcomes = sandbox.judge_many([(source, check) for source, check, _ in batch])
    for (source, check, expected), outcome in zip(batch, outcomes, strict=True):
        seen[f"{'garbage' if expected is None else 'honest'}: {outcome.verdict}"] += 1
        if fault := _fault(outcome, expected):
            yield {"fault": fault, "check": type(check).__name__, "program": source, "outcome": repr(outcome)}


def _fault(outcome: Outcome, expected: str | None) -> str | None:
    if outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE:
        return "infrastructure failure"
    if expected is None:
        return "garbage passed" if outcome.passed else None
    return None if outcome.verdict == expected else f"{outcome.verdict} instead of {expected}"


def peak_megabytes() -> int:
    """Largest memory peak of this process's children, the supervisors, so far."""
    most = 0
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            most = max(most, int(status.partition("VmHWM:")[2].split()[0]) >> 10)
    return most


def run(
    seed: int, minutes: float, num_workers: int, tell: Callable[[dict[str, Any]], None], most_rounds: int | None = None
) -> tuple[int, int, Counter[str]]:
    """Run rounds until the time is up; returns their number, the supervisors' peak in MB, and the verdicts seen."""
    deadline, rounds, peak = time.monotonic() + 60 * minutes, 0, 0
    seen: Counter[str] = Counter()
    with Sandbox(num_workers, 256 << 20, 4 << 20) as sandbox:
        while time.monotonic() < deadline and rounds != most_rounds:
            rng = random.Random(f"{seed}/{rounds}")
            for fault in fuzz_parsers(rng, 100):
                tell({"seed": seed, "round": rounds, **fault})
            for fault in fuzz_sandbox(rng, sandbox, 20, seen):
                tell({"seed": seed, "round": rounds, **fault})
            peak = max(peak, peak_megabytes())
            rounds += 1
    if peak > MOST_MEGABYTES:
        tell({"seed": seed, "fault": f"a supervisor took {peak} MB"})
    return rounds, peak, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--failures", type=Path, default=Path("fuzz_failures.jsonl"))
    options = parser.parse_args()
    faults = []

    def tell(fault: dict[str, Any]) -> None:
        faults.append(fault)
        print(json.dumps(fault)[:600], flush=True)
        with options.failures.open("a") as file:
            file.write(json.dumps(fault) + "\n")

    rounds, peak, seen = run(options.seed, options.minutes, options.num_workers, tell)
    print(f"seed {options.seed}: {rounds} rounds, {100 * rounds} messages, {sum(seen.values())} programs, "
          f"supervisors' peak {peak} MB, {len(faults)} faults")  # fmt: skip
    for name, count in sorted(seen.items()):
        print(f"  {count:7d} {name}")
    sys.exit(os.EX_OK if not faults else 1)


if __name__ == "__main__":
    main()
