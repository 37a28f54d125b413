"""vLLM in an environment of its own: ``make test-vllm`` builds it. Elsewhere these tests are skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder; skip them where vLLM is missing."""
    missing = pytest.mark.skip(reason="vllm is not in this environment: make test-vllm builds one, .venv-vllm")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if find_spec("vllm") is None:
                item.add_marker(missing)
