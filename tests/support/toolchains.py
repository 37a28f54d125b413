"""What this machine may lack."""

from __future__ import annotations

import pytest

from lit_rl.execution.languages import Language, find_toolchain, how_to_install


def need(language: Language) -> None:
    """Skip a test of a language whose tools are not installed."""
    if find_toolchain(language) is None:
        pytest.skip(how_to_install(language))
