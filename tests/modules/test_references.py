"""The reference: refreshed when it is time, and kept in checkpoints where configuration cannot rebuild it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.moved_weights import disturb
from support.slow_cases import slow_but
from support.small_runs import SaveAt, adam, fit, weights
from support.tiny_models import loaded

from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import GRPO, Objective, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.types import Experience

Make = Callable[..., RolloutModule]


class Distances(GRPO):
    """Distance of reference and policy when each rollout begins."""

    def make_experience(self, rollout: Rollout, rewards: Any) -> Experience:
        own, theirs = (one.logprobs(rollout.completions) for one in (self.policy, self.reference))
        self.seen: list[float] = [*getattr(self, "seen", []), float((own - theirs).abs().max())]
        return super().make_experience(rollout, rewards)


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)])
def test_the_reference_is_refreshed_every_so_many_rollouts(
    make_module: Make, tmp_path: Path, lora: LoRA | None
) -> None:
    module: Any = make_module(
        Distances, objective=Objective(kl_coef=0.1), refresh_reference_every=2, max_rollouts=5, optimizer=adam
    )
    module.policy.lora = lora
    fit(module, tmp_path)
    assert module.seen[0] == module.seen[2] == module.seen[4] == 0.0
    assert module.seen[1] > 1e-3 and module.seen[3] > 1e-3


@pytest.mark.parametrize("start", slow_but(("weights", "new adapter"), ["weights", "new adapter", "trained adapter"]))
def test_a_checkpoint_holds_the_reference_that_configuration_cannot_rebuild(
    make_module: Make, tmp_path: Path, byte_tokenizer: str, start: str
) -> None:
    """Items 45, 48: refreshed references, and the adapter a run started from; resumed runs end bit for bit alike."""
    if start == "trained adapter":
        trained_adapter(byte_tokenizer, tmp_path)
    every = None if start == "trained adapter" else 2

    def module() -> Any:
        made: Any = make_module(
            objective=Objective(kl_coef=0.1), refresh_reference_every=every, max_rollouts=5, optimizer=adam
        )
        if start == "new adapter":
            made.policy.lora = LoRA(rank=2)
        if start == "trained adapter":
            made.policy = CausalLM(str(tmp_path / "adapter"), tokenizer=byte_tokenizer, dtype="float64")
        return made

    whole, second = module(), module()
    fit(whole, tmp_path, callbacks=[SaveAt(3, tmp_path / "half.ckpt")])
    if start == "trained adapter":  # what the run started from may be gone, or have been trained on
        trained_adapter(byte_tokenizer, tmp_path, seed=7)
    names = torch.load(tmp_path / "half.ckpt", weights_only=False)["state_dict"]
    mark = "frozen_reference" if start == "weights" else ".reference."
    assert any(mark in name for name in names)
    fit(second, tmp_path, ckpt_path=str(tmp_path / "half.ckpt"))
    assert torch.equal(weights(second), weights(whole))


def trained_adapter(byte_tokenizer: str, folder: Path, seed: int = 3) -> None:
    """A folder of a model, and one of an adapter on it that is not zero."""
    loaded(byte_tokenizer, dtype="float64").save_pretrained(folder / "base")
    adapted = loaded(model=str(folder / "base"), lora=LoRA(rank=2), dtype="float64")
    disturb(adapted, seed, 0.1)
    adapted.save_pretrained(folder / "adapter")
