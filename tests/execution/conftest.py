"""Sandboxes that files of this folder share."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import Sandbox
from lit_rl.execution.confinement.box import BoxLimits, BoxReport, run_boxed
from lit_rl.execution.confinement.profile import untrusted_user_id


@pytest.fixture(scope="module", params=slow_but((None,), [0, None]), ids=["tier_0", "best_tier"])
def either_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The best tier of this machine and, where slow tests run, tier 0; many of its programs only wait."""
    with Sandbox(num_workers=4, tier=request.param) as sandbox:
        yield sandbox


@pytest.fixture
def boxed_at() -> Iterator[Callable[..., BoxReport]]:
    """Runs commands in boxes, one after the other, in a folder that belongs to their user."""
    with tempfile.TemporaryDirectory(prefix="lit_rl-test-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, untrusted_user_id(), untrusted_user_id())

        def run(command: str, limits: dict[str, Any] | None = None, **settings: Any) -> BoxReport:
            return run_boxed(command, folder, BoxLimits(**{"seconds": 20.0, **(limits or {})}), **settings)

        yield run
