"""No hostile program is rewarded, breaks out or leaves anything; every honest one passes.

By default each way of judging is run once, over the tiers; ``slow`` runs all of them, as root and as an
ordinary user.
"""

import pytest
import suites
from suites import need_tier
from support.slow_cases import slow_but

SECRETS = [name for name, source in suites.hostile_programs.FUNCTION_STYLE.items() if "SECRET" in source]
SUITES = [(0, "literal", None), (0, "literal", SECRETS), (0, "stdio", None), (1, "stdio", None)]


@pytest.mark.parametrize(("tier", "kind", "names"), slow_but(SUITES[1:], SUITES))
def test_suite(tier, kind, names):
    """Items 61, 62, 64, 65: programs that start daemons, read secrets, exit early or reach for their grader."""
    need_tier(tier)
    assert suites.run(tier, kind, names=names) == []


def test_no_cheat_gets_past_a_grader():
    need_tier(1)
    assert suites.run(1, "graded", names=suites.hostile_programs.CHEATS.keys()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["literal", "graded", "calls", "stdio"])
@pytest.mark.parametrize("tier", [0, 1, 2])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_suite_on_every_tier(tier, kind, num_workers):
    need_tier(tier)
    assert suites.run(tier, kind, num_workers) == []


LANDLOCK_VERSIONS = (1, 5)  # the first; the last one before signals are kept in


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["literal", "graded", "calls", "stdio"])
@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize("landlock", LANDLOCK_VERSIONS)
def test_every_suite_on_older_kernels(tier, kind, landlock):
    need_tier(tier)
    assert suites.run(tier, kind, landlock=landlock) == []


USER_RUNS = [(t, k) for t in (0, 1) for k in ("literal", "graded", "calls", "stdio")]


@pytest.mark.parametrize(("tier", "kind"), slow_but([(0, "stdio")], USER_RUNS))
def test_suite_as_an_ordinary_user(tier, kind):
    done = suites.as_ordinary_user(suites.__file__, tier, kind, 2)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


# A program runs beside its grader here, and as the trainer's own user.
REACHING = [(tier, landlock) for tier in (0, 1) for landlock in (1, 5, None)]


@pytest.mark.parametrize(("tier", "landlock"), slow_but([(0, None)], REACHING))
def test_no_program_of_an_ordinary_user_reaches_another_process(tier, landlock):
    older = [] if landlock is None else ["--landlock", landlock]
    done = suites.as_ordinary_user(suites.__file__, tier, "graded", 1, "--only", "system_calls", *older)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("group", ["other_processes", "sent_signals"])
def test_no_program_reaches_its_grader_even_where_files_are_not_guarded(group):
    done = suites.as_ordinary_user(suites.__file__, -1, "graded", 1, "--only", group, "--landlock", 0)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("tier", slow_but((1,), [0, 1]))
def test_no_program_of_a_nobody_reaches_another_process(tier):
    need_tier(tier)
    names = suites.hostile_system_calls.SYSTEM_CALLS.keys()
    assert suites.run(tier, "graded", 1, names, landlock=1) == []
