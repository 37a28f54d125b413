"""The same program ends the same way each time, and cannot predict what a test draws at random."""

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, Sandbox, SandboxError, StdioTests, Verdict
from lit_rl.execution.confinement.kernel import libc

QUIET = StdioTests((("", ""),))
UNSEEDED = """
import random
first = random.Random().random()
random.seed()
print(list({'a', 'b', 'c', 'd', 'e'}))
print(random.random(), first, random.Random().getrandbits(64), random.sample(range(1000), 5))
"""
UNSEEDED_NUMPY = """
import numpy
print(numpy.random.rand(), numpy.random.RandomState().rand(), numpy.random.default_rng().random())
print(numpy.random.Generator(numpy.random.PCG64()).integers(1 << 60))
"""
ADDRESSES = """
import json
kinds = {int, str, dict, list, float, KeyError}
print(id(len), id(json), id(json.dumps), hash(json), [kind.__name__ for kind in kinds])
"""


def printed(program, num_runs=4, num_sandboxes=2, **options):
    """Its output in several runs of several workers of several sandboxes, between other programs."""
    found = set()
    other = ("x = [object() for _ in range(1000)]", QUIET)
    for _ in range(num_sandboxes):
        with Sandbox(num_workers=2, **options) as sandbox:
            outcomes = sandbox.judge_many([(program, QUIET), other] * num_runs)[::2]
            assert {outcome.exception_type for outcome in outcomes} == {None}
            found |= {outcome.stdout for outcome in outcomes}
    return found


@pytest.mark.parametrize(("program", "packages"), [(UNSEEDED, []), (UNSEEDED_NUMPY, ["numpy"])])
def test_random_numbers_without_a_seed_are_the_same_each_time(program, packages):
    for package in packages:
        pytest.importorskip(package)
    assert len(printed(program, packages=packages)) == 1


@pytest.mark.parametrize("tier", slow_but((2,), [0, 1, 2]))
def test_what_was_there_before_the_program_has_the_same_address_each_time(tier):
    before = libc.personality(0xFFFFFFFF)
    if before < 0 or libc.personality(before | 0x0040000) < 0:
        pytest.skip("this kernel, or a container, does not let addresses be fixed")
    libc.personality(before)
    try:
        assert len(printed(ADDRESSES, tier=tier)) == 1
        assert libc.personality(0xFFFFFFFF) == before  # this process keeps its random ones
    except SandboxError as error:
        pytest.skip(f"tier {tier} cannot be had here: {error}")


def test_a_program_cannot_draw_what_the_test_draws(sandbox):
    """It answers with what its own stream says comes next: equal streams would make the two the same."""
    for kind in ("random.random()", "random.Random().random()", "(random.seed(), random.random())[1]"):
        program = f"import random\ndef f(x):\n    if x == 0: return guess\n    return x + 1\nguess = {kind}"
        asserts = f"x = {kind}\n        assert f(x) == x + 1\n        assert f(0) != x"
        test = f"import random\ndef check(f):\n    for _ in range(3):\n        {asserts}"
        outcome = sandbox.submit(program, AssertTests(test, "f")).result(60)
        assert outcome.verdict is Verdict.PASSED, (kind, outcome)


def test_what_a_test_draws_is_the_same_each_time_and_another_for_another_test():
    tell = "import sys\ndef f(x):\n    print(x, file=sys.stderr, flush=True)\n    return x"
    values = {}
    for mark in ("one", "two"):
        body = f"        x = random.random()  # {mark}\n        assert f(x) == x"
        test = f"import random\ndef check(f):\n    for _ in (1,):\n{body}"
        with Sandbox(num_workers=1) as sandbox:
            values[mark] = {o.stderr for o in sandbox.judge_many([(tell, AssertTests(test, "f"))] * 3)}
    assert [len(found) for found in values.values()] == [1, 1]
    assert values["one"] != values["two"]
