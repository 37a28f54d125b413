# ruff: noqa: E501 - one case a line
"""A verdict needs evidence from outside the program, for it may not choose which failure it is."""

import pytest
from support.named_jobs import among, judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import AssertTests, CallTests, StdioTests

WORLD = {"locations": ["hall"], "objects": {}, "agents": {}, "robot_location": "hall"}
CHECKS = {
    "stdio": StdioTests((("4\n", "8\n"),), timeout_seconds=2.0),
    "calls": CallTests((((1,), 2), ((5,), 6)), "f", 2.0),
    "asserts": AssertTests("assert f(1) == 2\nassert f(5) == 6\n", None, 2.0),
    "graded": AssertTests("def check(candidate):\n    y = candidate(1)\n    assert y == 2\n", "f", 2.0),
    "hosted": RobotWorlds((RobotTest(WORLD, False, ["exists", "trace", ["Say", "hi there"]]),), 2.0),
}
WRITES = """
import os, sys
def run(*_):
    for d in (4, 1, 2, 3, 5, 6):
        try: os.write(d, {line!r})
        except OSError: pass
    {end}
f = run
if {at_once}: run()
"""
FORGED = {
    "syntax_error": '{"stage": "compile", "types": ["SyntaxError"], "message": "", "line": 1}',
    "out_of_memory": '{"stage": "run", "types": ["MemoryError"], "message": "", "line": 1}',
    "timed_out": '{"stage": "timed_out", "types": ["SIGXCPU", "TimeoutError"], "message": "", "line": 1}',
    "output_limit": '{"stage": "output_limit", "types": ["OutputLimit"], "message": "", "line": 1}',
    "no_program": '{"stage": "no_program", "types": [], "message": "", "line": null}',
    "infrastructure_failure": '{"stage": "fault", "types": ["FaultOfTests"], "message": "", "line": null}',
}
ENDS = ["os._exit(1)", "os._exit(0)", "os._exit(45)", "raise KeyError", "return None"]
# Each program ends at once; the verdict in front is the one that it would choose, and has no right to. A MemoryError that
# it raises itself is not among them: it is what asking for too much gives, which costs nothing either.
CLAIMS = {
    "syntax_error_raised": ("syntax_error", "raise SyntaxError('x')"),
    "syntax_error_of_exec": ("syntax_error", "exec('x = = 1')"),
    "memory_error_of_its_own": ("out_of_memory", "class MemoryError(Exception): pass\nraise MemoryError"),
    "memory_error_behind_another": ("out_of_memory", "try: raise MemoryError\nexcept MemoryError: raise KeyError"),
    "cpu_signal": ("timed_out", "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)"),
    "timeout_error_raised": ("timed_out", "raise TimeoutError"),
    "file_size_signal": ("output_limit", "import os, signal\nos.kill(os.getpid(), signal.SIGXFSZ)"),
    "file_size_error": ("output_limit", "raise OSError(27, 'File too large')"),
    "kill_signal": ("out_of_memory", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
}
HONEST = {
    "def f(x:": "syntax_error",
    "return 5": "syntax_error",
    "from __future__ import braces": "syntax_error",
    "while True: pass": "timed_out",
    "rows = []\nwhile True: rows.append(bytearray(1 << 20))": "out_of_memory",
    "while True: print('x' * 10**6)": "output_limit",
    "raise KeyError": "exception",
    "import os\nos._exit(3)": "exception",
    "import os\nos.abort()": "exception",
}
IN_VAIN = {"passed", "infrastructure_failure", "no_program", *FORGED}


def judged(sandbox, sources, kind):
    """Outcomes of sources, by name, that may define ``f``; a robot program needs a function of its own."""
    robot = "\ndef task_program():\n    f()\n" if kind == "hosted" else "\n"
    return judge_named(sandbox, {name: (source + robot, CHECKS[kind]) for name, source in sources.items()})


ALL_WRITES = [*((kind, 5) for kind in ("calls", "stdio", "hosted")), *((kind, 1) for kind in CHECKS)]


@pytest.mark.parametrize(("kind", "every"), slow_but(ALL_WRITES[:3], ALL_WRITES))
def test_a_program_does_not_choose_its_verdict_by_what_it_writes(either_sandbox, kind, every):
    forms = [
        form % claim
        for claim in FORGED.values()
        for form in ("%s", '["end", %s]', '["error", %s, []]', '["names", {}, []]\n["end", %s]')
    ]
    settings = [(form, end, at_once) for at_once in (True, False) for end in ENDS for form in forms][::every]
    sources = {how: WRITES.format(line=how[0].encode() + b"\n", end=how[1], at_once=how[2]) for how in settings}
    assert among(judged(either_sandbox, sources, kind), *IN_VAIN) == {}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_program_does_not_choose_its_verdict_by_how_it_ends(either_sandbox, kind):
    sources = {}
    for name, (_, source) in CLAIMS.items():
        inside = "def f(x=None):\n" + "".join(f"    {line}\n" for line in source.splitlines())
        sources |= {(name, "outside"): source, (name, "inside"): inside + ("f()\n" if kind == "stdio" else "")}
    outcomes = judged(either_sandbox, sources, kind)
    refused = {"passed", "infrastructure_failure"}
    assert {how: end for how, end in outcomes.items() if end.verdict in refused | {CLAIMS[how[0]][0]}} == {}


@pytest.mark.parametrize("kind", slow_but(("graded", "hosted"), CHECKS))
def test_verdicts_with_evidence_are_the_same_in_all_checks(either_sandbox, kind):
    outcomes = judged(either_sandbox, {source: source for source in HONEST}, kind)
    assert {source: str(outcome.verdict) for source, outcome in outcomes.items()} == HONEST


def test_a_large_allocation_that_fails_is_the_programs_failure(either_sandbox):
    for kind in CHECKS:
        outcomes = judged(either_sandbox, {kind: "rows = bytearray(1 << 40)"}, kind)
        assert not_among(outcomes, "out_of_memory", "exception") == {}
        assert outcomes[kind].exception_type == "MemoryError"
