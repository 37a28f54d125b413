"""Programs in other languages than Python that would pass, be masked, break out or leave something behind."""

import pytest
import suites
from whole_attacks import CALLS, WHOLE

from lit_rl.execution.languages import how_to_install, toolchain

GROUPS = [(kind, language) for kind, named in (("whole", WHOLE), ("calls", CALLS)) for language in named]
QUICK = [("calls", "javascript"), ("whole", "cpp")]


def need(language):
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))


def test_there_are_as_many_attacks_as_promised():
    for language in ("javascript", "java", "go", "rust"):
        assert len(WHOLE[language]) >= 25
    assert all(len(programs) >= 10 for programs in WHOLE.values())


@pytest.mark.parametrize(("kind", "language"), QUICK)
def test_some_attacks(kind, language):
    need(language)
    assert suites.run_language(0, kind, language, every=12) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "language"), GROUPS)
@pytest.mark.parametrize("tier", [0, 1])
def test_no_attack_passes_or_is_masked(tier, kind, language):
    need(language)
    assert suites.run_language(tier, kind, language) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "language"), GROUPS)
@pytest.mark.parametrize("tier", [0, 1])
def test_no_attack_of_an_ordinary_user_passes_or_is_masked(tier, kind, language):
    need(language)
    done = suites.as_ordinary_user(suites.__file__, tier, kind, 2, "--language", language)
    if how_to_install(language) in done.stdout:  # what root has in its own folder
        pytest.skip(how_to_install(language))
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
