"""Memory of freed tensors stays with the process, whichever verb is the first."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.small_runs import Words, build_module, quiet_trainer

from lit_rl import evaluate
from lit_rl.training import fixed_costs


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Options that the C library is told, by number."""
    options: dict[int, int] = {}
    libc = SimpleNamespace(mallopt=options.__setitem__)
    monkeypatch.setattr(fixed_costs, "ctypes", SimpleNamespace(CDLL=lambda _: libc))
    for name in [one for one in os.environ if one.startswith("MALLOC_") or one == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)
    return options


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict", "evaluate"])
@pytest.mark.parametrize("user_set", [False, True])
def test_memory_of_freed_tensors_is_kept_unless_the_user_set_the_allocator(
    verb: str,
    user_set: bool,
    told: dict[int, int],
    byte_tokenizer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if user_set:
        monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    module = build_module(byte_tokenizer, max_rollouts=1)
    if verb == "evaluate":
        evaluate(module.policy, Words().problems("validation"))
    else:
        kept = {"return_predictions": False} if verb == "predict" else {}
        getattr(quiet_trainer(tmp_path, limit_val_batches=1), verb)(module, datamodule=Words(), **kept)
    assert told == ({} if user_set else {-3: 32 * 2**20, -1: 512 * 2**20})
