"""No hostile program is rewarded, breaks out or leaves anything; every honest one passes.

By default each way of judging is run once, over the tiers; ``slow`` runs all of them, as root and as an
ordinary user.
"""

from itertools import product

import pytest
import suites
from suites import need_tier
from support.slow_cases import slow_but
from support.toolchains import need
from whole_attacks import CALLS, WHOLE

from lit_rl.execution import SandboxError
from lit_rl.execution.languages import how_to_install

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


KINDS = ["literal", "graded", "calls", "stdio"]
# Tiers, numbers of workers, and versions of Landlock: the first, and the last one before signals are kept in.
MACHINES = [*product((0, 1, 2), (1, 2), (None,)), *product((0, 1), (2,), (1, 5))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tier", "num_workers", "landlock"), MACHINES)
def test_every_suite_on_every_tier_and_on_older_kernels(tier, num_workers, landlock, kind):
    need_tier(tier)
    assert suites.run(tier, kind, num_workers, landlock=landlock) == []


def require_no_fault_as_an_ordinary_user(*arguments):
    done = suites.as_ordinary_user(suites.__file__, *arguments)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize(("tier", "kind"), slow_but([(0, "stdio")], product((0, 1), KINDS)))
def test_suite_as_an_ordinary_user(tier, kind):
    require_no_fault_as_an_ordinary_user(tier, kind, 2)


@pytest.mark.parametrize(("tier", "landlock"), slow_but([(0, None)], product((0, 1), (1, 5, None))))
def test_no_program_of_an_ordinary_user_reaches_another_process(tier, landlock):
    """A program runs beside its grader here, and as the trainer's own user."""
    older = [] if landlock is None else ["--landlock", landlock]
    require_no_fault_as_an_ordinary_user(tier, "graded", 1, "--only", "system_calls", *older)


@pytest.mark.parametrize("group", ["other_processes", "sent_signals"])
def test_no_program_reaches_its_grader_even_where_files_are_not_guarded(group):
    require_no_fault_as_an_ordinary_user(-1, "graded", 1, "--only", group, "--landlock", 0)


@pytest.mark.parametrize("tier", slow_but((1,), [0, 1]))
def test_no_program_of_a_nobody_reaches_another_process(tier):
    need_tier(tier)
    names = suites.hostile_system_calls.SYSTEM_CALLS.keys()
    assert suites.run(tier, "graded", 1, names, landlock=1) == []


LANGUAGES = [*product(("whole",), WHOLE), *product(("calls",), CALLS)]
SOME_ATTACKS = [(0, "calls", "javascript", 12), (0, "whole", "cpp", 12)]
ATTACKS = [*SOME_ATTACKS, *((tier, *one, 1) for tier in (0, 1) for one in LANGUAGES)]


@pytest.mark.parametrize(("tier", "kind", "language", "every"), slow_but(SOME_ATTACKS, ATTACKS))
def test_no_attack_in_another_language_passes_or_is_masked(tier, kind, language, every):
    need(language)
    try:
        assert suites.run_language(tier, kind, language, every) == []
    except SandboxError as error:
        if "only root may enter" not in str(error):
            raise
        pytest.skip(f"{error}")  # a compiler in root's own folder


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "language"), LANGUAGES)
@pytest.mark.parametrize("tier", [0, 1])
def test_no_attack_in_another_language_of_an_ordinary_user_passes_or_is_masked(tier, kind, language):
    need(language)
    done = suites.as_ordinary_user(suites.__file__, tier, kind, 2, "--language", language)
    if how_to_install(language) in done.stdout:  # what root has in its own folder
        pytest.skip(how_to_install(language))
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
