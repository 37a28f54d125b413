"""Programs in other languages than Python that would pass, be masked, break out or leave something behind."""

import pytest
import suites
from support.toolchains import need
from whole_attacks import CALLS, WHOLE

from lit_rl.execution.languages import how_to_install
from lit_rl.execution.worker import SandboxError

GROUPS = [(kind, language) for kind, named in (("whole", WHOLE), ("calls", CALLS)) for language in named]
QUICK = [("calls", "javascript"), ("whole", "cpp")]


def attacks_that_hold(tier, kind, language, every=1):
    need(language)
    try:
        return suites.run_language(tier, kind, language, every)
    except SandboxError as error:
        if "only root may enter" not in str(error):
            raise
        pytest.skip(f"{error}")  # a compiler in root's own folder


@pytest.mark.parametrize(("kind", "language"), QUICK)
def test_some_attacks(kind, language):
    assert attacks_that_hold(0, kind, language, every=12) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "language"), GROUPS)
@pytest.mark.parametrize("tier", [0, 1])
def test_no_attack_passes_or_is_masked(tier, kind, language):
    assert attacks_that_hold(tier, kind, language) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "language"), GROUPS)
@pytest.mark.parametrize("tier", [0, 1])
def test_no_attack_of_an_ordinary_user_passes_or_is_masked(tier, kind, language):
    need(language)
    done = suites.as_ordinary_user(suites.__file__, tier, kind, 2, "--language", language)
    if how_to_install(language) in done.stdout:  # what root has in its own folder
        pytest.skip(how_to_install(language))
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
