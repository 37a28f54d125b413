"""The first ratio of a rollout is 1, bit for bit, in every precision (item 36)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ranks import on_ranks
from support.slow_cases import slow_but
from support.small_runs import Brief, EvenBytes, Words, quiet_trainer
from torch import Tensor

from lit_rl.math.divergences import JSD
from lit_rl.models import FSDP2Strategy, LoRA, SeparateCritic
from lit_rl.modules import GRPO, PPO, Distillation, Objective, UpdateConfig
from lit_rl.modules.distillation import DistillationConfig
from lit_rl.types import Experience, Sampling

# Wide enough that bfloat16 products come out otherwise in batches of another shape.
SMALL = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "attention_dropout": 0.5,
}
SHARED, PADDED = True, False
POLICY = ("dtype", "share_prompts", "gradient_checkpointing", "lora")


class Watched:
    """Keeps the largest |log ratio| of each update, by (rollout, update)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.moved: dict[tuple[int, int], float] = {}

    def token_losses_and_metrics(self, micro: Experience, logprobs: Tensor, entropy: Tensor | None) -> Any:
        if not self.on_policy:  # type: ignore[attr-defined]
            key = self.clock.count, self.progress.update  # type: ignore[attr-defined]
            distance = float(((logprobs.detach() - micro.old_logprobs) * micro.loss_mask).abs().max())
            self.moved[key] = max(self.moved.get(key, 0.0), distance)
        return super().token_losses_and_metrics(micro, logprobs, entropy)  # type: ignore[misc]


def fitted(tokenizer: str, folder: Path, kind: str, strategy: Any = "auto", devices: int = 1, **given: Any) -> Any:
    """Two rollouts of 24 rows, in micro-batches of five; settings of policy, objective, trainer and update by name."""
    of_policy, of_objective, of_trainer = (
        {name: given.pop(name) for name in names if name in given}
        for names in (POLICY, ("kl_coef", "entropy_coef"), ("precision",))
    )
    extra: dict[str, Any] = {}
    if kind == "ppo":
        extra = {"critic": SeparateCritic()}
    if kind == "distillation":
        teacher = Brief(config=SMALL, tokenizer=tokenizer, init_seed=5, dtype=of_policy["dtype"])
        extra = {"teacher": teacher, "distil": DistillationConfig(JSD(beta=1.0), reward_weight=1.0)}
    base = {"grpo": GRPO, "ppo": PPO, "distillation": Distillation}[kind]
    rate = given.pop("rate")
    module = type("Seen", (Watched, base), {})(
        Brief(config=SMALL, tokenizer=tokenizer, **of_policy),
        rewards=[EvenBytes()],
        sampling=Sampling(num_samples=8, max_tokens=12, temperature=0.5),
        objective=Objective(**of_objective),
        update=UpdateConfig(optimizer=partial(torch.optim.AdamW, lr=rate), **{"microbatch_size": 5} | given),
        max_rollouts=2,
        **extra,
    )
    quiet_trainer(folder, strategy=strategy, devices=devices, **of_trainer).fit(module, Words(batch_size=3))
    return module


def firsts(moved: dict[tuple[int, int], float]) -> Iterator[float]:
    return (distance for (_, update), distance in moved.items() if update == 0)


@pytest.mark.parametrize(
    ("dtype", "minibatches", "epochs", "share", "kl"),
    [
        ("bfloat16", 1, 2, SHARED, 0.1),
        ("bfloat16", 2, 1, PADDED, 0.1),
        ("bfloat16", 4, 1, SHARED, 0.0),
        ("bfloat16", 4, 2, PADDED, 0.0),
        ("float32", 1, 2, PADDED, 0.0),
        ("float32", 4, 2, SHARED, 0.1),
    ],
)
def test_with_a_rate_of_0_every_ratio_is_1(
    byte_tokenizer: str, tmp_path: Path, dtype: str, minibatches: int, epochs: int, share: bool, kl: float
) -> None:
    """Items 33, 34, 36: at temperature 0.5, behind left pads, in a model with dropout."""
    options = {"dtype": dtype, "minibatches": minibatches, "epochs": epochs, "share_prompts": share, "kl_coef": kl}
    module = fitted(byte_tokenizer, tmp_path, "grpo", rate=0.0, **options)
    assert len(module.moved) == 2 * minibatches * epochs
    assert set(module.moved.values()) == {0.0}


@pytest.mark.parametrize(("kind", "minibatches"), [("grpo", 2), ("ppo", 4), ("distillation", 2)])
def test_each_rollouts_first_minibatch_has_ratio_1(
    byte_tokenizer: str, tmp_path: Path, kind: str, minibatches: int
) -> None:
    module = fitted(byte_tokenizer, tmp_path, kind, rate=1e-3, dtype="bfloat16", minibatches=minibatches, epochs=2)
    assert set(firsts(module.moved)) == {0.0}
    assert max(module.moved.values()) > 0  # later ones have moved


@pytest.mark.parametrize(
    "given",
    [
        {"gradient_checkpointing": True, "minibatches": 4},
        {"gradient_checkpointing": True, "lora": LoRA(rank=2), "minibatches": 4},
        {"microbatch_tokens": 60},
        {"entropy_coef": 0.01},
        {"precision": "bf16-mixed", "dtype": "float32"},
    ],
    ids=str,
)
def test_checkpointing_budgets_entropy_and_autocast_keep_the_ratio(
    byte_tokenizer: str, tmp_path: Path, given: dict[str, Any]
) -> None:
    options = {"dtype": "bfloat16", "minibatches": 2} | given
    assert set(fitted(byte_tokenizer, tmp_path, "grpo", rate=0.0, **options).moved.values()) == {0.0}


@pytest.mark.parametrize("strategy", slow_but(("fsdp2",), ["ddp", "fsdp2"]))
def test_two_ranks_keep_the_ratio(byte_tokenizer: str, tmp_path: Path, strategy: str) -> None:
    def run() -> list[float]:
        how = FSDP2Strategy(param_dtype="bfloat16") if strategy == "fsdp2" else "ddp"
        dtype = "float32" if strategy == "fsdp2" else "bfloat16"  # shards stay in float32
        options = {"dtype": dtype, "minibatches": 4, "epochs": 2, "kl_coef": 0.1}
        return sorted(set(fitted(byte_tokenizer, tmp_path, "grpo", how, devices=2, rate=0.0, **options).moved.values()))

    assert on_ranks(run) == [[0.0], [0.0]]
