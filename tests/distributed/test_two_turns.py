"""Rows of unequal numbers of turns on two ranks, one of which has no second turn at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributed.runs import build, fit, policy
from distributed.test_equality import difference
from support.asking import AsksAgain, Watches
from support.ranks import on_ranks
from support.two_turns import LastTurn

from lit_rl.advantages import GroupMean, Murphy, TurnReturns
from lit_rl.modules import GRPO


class TwoTurnGRPO(Watches, GRPO):
    """GRPO that keeps what it saw."""


@pytest.mark.parametrize(
    ("strategy", "baseline"),
    [
        ("ddp", GroupMean()),
        ("ddp", Murphy()),
        pytest.param("ddp", TurnReturns(0.9, GroupMean("batch_std")), marks=pytest.mark.slow),
        pytest.param("fsdp2", GroupMean(), marks=pytest.mark.slow),
    ],
)
def test_two_ranks_learn_from_answers_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, strategy: str, baseline: Any
) -> None:
    def trained(name: str, devices: int) -> tuple[dict[str, Any], list[list[int]]]:
        options = {"environment": AsksAgain("02468"), "rewards": [LastTurn()], "max_rollouts": 6, "baseline": baseline}
        module: Any = build(TwoTurnGRPO, policy(byte_tokenizer), **options)
        return fit(module, name, tmp_path, devices=devices), module.seen

    alone, seen = trained("auto", 1)
    (first, of_first), (second, of_second) = on_ranks(lambda: trained(strategy, 2))
    assert [sorted(a + b) for a, b in zip(of_first, of_second, strict=True)] == [sorted(turns) for turns in seen]
    pairs = zip(of_first, of_second, strict=True)
    assert any((max(a) == 1) != (max(b) == 1) for a, b in pairs), (of_first, of_second)
    assert difference(first, second) == 0.0
    assert difference(first, alone) < 1e-8
