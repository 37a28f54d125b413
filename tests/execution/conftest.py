"""Sandboxes that files of this folder share."""

from collections.abc import Iterator

import pytest

from lit_rl.execution import Sandbox


@pytest.fixture(scope="module", params=[pytest.param(0, marks=pytest.mark.slow), None], ids=["tier_0", "best_tier"])
def either_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The best tier of this machine and, where slow tests run, tier 0; many of its programs only wait."""
    with Sandbox(num_workers=4, tier=request.param) as sandbox:
        yield sandbox
