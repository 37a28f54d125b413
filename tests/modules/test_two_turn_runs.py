"""Runs in which an environment answers: each setting learns from two turns as it does from one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import AsksAgain, CrashesAt, Watches
from support.saved_runs import run
from support.slow_cases import slow_but
from support.small_runs import Brief, adam, fit
from support.tiny_models import TINY_QWEN2
from support.two_turns import LastTurn

from lit_rl.callbacks import Checkpointing
from lit_rl.models import LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import GRPO, PPO, Objective, RolloutModule
from lit_rl.rewards import TurnPenalty
from lit_rl.types import Sampling

Make = Callable[..., RolloutModule]


class TwoTurnGRPO(Watches, GRPO):
    """GRPO that keeps what it saw."""


class TwoTurnPPO(Watches, PPO):
    """PPO that keeps what it saw."""


IN_REWARD = Objective(kl_coef=0.1, kl_in="reward", kl_kind="k1")
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "grpo": (TwoTurnGRPO, {"objective": Objective(kl_coef=0.1), "minibatches": 2}),
    "ppo-own": (TwoTurnPPO, {"critic": SeparateCritic(), "objective": IN_REWARD, "bootstrap_truncated": True}),
    "ppo-shared": (TwoTurnPPO, {"critic": SharedCritic()}),
}


def still(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.0)


def module_of(make: Make, tokenizer: str, kind: str, model: dict[str, Any] | None = None, **more: Any) -> Any:
    """Two rollouts with answers, on a policy that ends many turns early."""
    cls, options = copy.deepcopy(KINDS[kind])
    common: dict[str, Any] = {"environment": AsksAgain(), "optimizer": adam, "max_rollouts": 2, "microbatch_size": 5}
    module = make(cls, rewards=[LastTurn(), TurnPenalty(0.1)], **(common | options | more))
    settings: dict[str, Any] = {"dtype": "float64", "lora": LoRA(rank=2) if kind == "ppo-shared" else None}
    module.policy = Brief(config=TINY_QWEN2, tokenizer=tokenizer, **(settings | (model or {})))
    return module


def learned(module: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().double() for p in module.parameters() if p.requires_grad])


def trained(module: Any, folder: Path, **trainer: Any) -> torch.Tensor:
    fit(module, folder, **trainer)
    assert all({1, 2} == set(turns) for turns in module.seen) and len(module.seen) == 2
    return learned(module)


@pytest.mark.parametrize("kind", slow_but(("grpo",), ["grpo", "ppo-own", "ppo-shared"]))
def test_ways_to_compute_the_same_learn_the_same(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, kind: str
) -> None:
    plain = module_of(make_module, byte_tokenizer, kind)
    expected = trained(plain, tmp_path)
    unmoved = module_of(make_module, byte_tokenizer, kind, optimizer=still)
    assert (trained(unmoved, tmp_path) - expected).abs().max() > 1e-3
    other = module_of(make_module, byte_tokenizer, kind, {"gradient_checkpointing": True})
    assert (trained(other, tmp_path) - expected).abs().max() < 1e-8
    assert other.seen == plain.seen


@pytest.mark.parametrize("kind", slow_but(("ppo-shared",), ["grpo", "ppo-own", "ppo-shared"]))
def test_a_run_that_crashed_between_two_turns_goes_on_bit_for_bit(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, kind: str
) -> None:
    whole = module_of(make_module, byte_tokenizer, kind)
    run(whole, Checkpointing(str(tmp_path / "whole"), None))
    assert {2} < set(whole.seen[0]) and {2} < set(whole.seen[1])
    until = sum(turns - 1 for of_rollout in whole.seen[:1] for turns in of_rollout) + 1
    first = module_of(make_module, byte_tokenizer, kind, environment=CrashesAt(until))
    with pytest.raises(InterruptedError):
        run(first, Checkpointing(str(tmp_path / "a"), 1))
    assert first.clock.count == 1
    second = module_of(make_module, byte_tokenizer, kind)
    run(second, Checkpointing(str(tmp_path / "a"), 1))
    assert second.seen == whole.seen[1:]
    assert torch.equal(learned(second), learned(whole))


def test_rows_whose_last_turn_was_cut_leave_the_loss(make_module: Make, byte_tokenizer: str, tmp_path: Path) -> None:
    """A row whose first turn was cut and whose last ended by itself stays."""
    module = module_of(
        make_module,
        byte_tokenizer,
        "grpo",
        mask_truncated=True,
        max_rollouts=1,
        sampling=Sampling(num_samples=20, max_tokens=6),
    )
    fit(module, tmp_path)
    rows, kept = module.rollout.completions, module.experience.row_mask
    cut = [[turn.stop_reason == "length" for turn in turns] for turns in rows.turns]
    assert kept.tolist() == [not of_row[-1] for of_row in cut]
    assert [True, False] in cut and [False, True] in cut
