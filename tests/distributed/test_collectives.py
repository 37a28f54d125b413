"""All ranks issue the same collectives in the same order, whatever the rows of a rank: else one waits for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from distributed.runs import MODULES, SomeMissing, build, policy, trainer_of
from support.late_verdicts import Late, Sided
from support.ranks import on_ranks
from support.slow_cases import slow_but
from support.small_runs import EvenBytes, Words
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lit_rl.models import FSDP2Strategy
from lit_rl.modules import GRPO


class Collectives(TorchDispatchMode):
    """Notes each collective: its name, and the shapes and dtypes of its tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.issued: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            self.issued.append(f"{func._opname} {[(tuple(one.shape), str(one.dtype)) for one in tensors]}")
        return func(*args, **(kwargs or {}))


class Counting(SomeMissing):
    rows = 0

    def score(self, *given: Any) -> Any:
        scores = super().score(*given)
        self.rows += sum(one.value is not None for one in scores)
        return scores


CASES = {
    "rows without rewards": {},
    "micro-batches by tokens": {"microbatch_size": None, "microbatch_tokens": 12},
    "resampling": {"max_resamples": 2, "sandbox": Late},
    "the end of the data": {"max_rollouts": None},
    "too much KL": {"max_kl": 1e-6},
}


@pytest.mark.parametrize(
    ("case", "strategy"),
    slow_but(
        [("rows without rewards", "fsdp2")],
        [(case, strategy) for case in [*CASES, *MODULES] for strategy in ("fsdp2", "ddp")],
    ),
)
def test_two_ranks_issue_the_same_collectives(byte_tokenizer: str, tmp_path: Path, case: str, strategy: str) -> None:
    def issued() -> tuple[list[str], int]:
        counting = Counting()
        module: Any = (
            MODULES[case](byte_tokenizer)
            if case in MODULES
            else build(GRPO, policy(byte_tokenizer), **{"rewards": [counting]} | CASES[case])
        )
        data = Sided(batch_size=1) if case == "resampling" else Words(batch_size=1)
        trainer = trainer_of(strategy, tmp_path, 2, max_epochs=1 if case == "the end of the data" else -1)
        with Collectives() as mode:
            trainer.fit(module, data)
        return mode.issued, counting.rows

    (first, rows), (second, others) = on_ranks(issued)
    assert len(first) > 30
    assert first == second
    if case == "rows without rewards":
        assert rows != others, "no rank had less to do"


SUMMED_ONCE = {
    "ddp": lambda: "ddp",
    "whole gradients": lambda: FSDP2Strategy(whole_gradients=True, timeout_minutes=0.3),
}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    slow_but([("ddp", "bfloat16")], [("ddp", "float64"), ("whole gradients", "float64")]),
)
def test_gradients_are_summed_once_per_optimizer_step(
    byte_tokenizer: str, tmp_path: Path, kind: str, dtype: str
) -> None:
    """Four micro-batches or one: as many collectives sum numbers."""

    def sums(microbatch_size: int) -> int:
        actor = policy(byte_tokenizer, dtype=dtype)
        module = build(GRPO, actor, max_rollouts=2, rewards=[EvenBytes()], microbatch_size=microbatch_size)
        with Collectives() as mode:
            trainer_of(SUMMED_ONCE[kind](), tmp_path, 2).fit(module, Words(batch_size=1))
        return sum("allreduce" in name or "reduce_scatter" in name for name in mode.issued)

    assert on_ranks(sums, 1) == on_ranks(sums, 4)
