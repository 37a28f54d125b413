"""Fits on one or two ranks that must end with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy
from support.privileged import Longer
from support.small_runs import Brief, EvenBytes, Words, grouped, quiet_trainer
from support.tiny_models import TINY_QWEN2

from lit_rl.math.advantages import GroupMean
from lit_rl.math.divergences import JSD
from lit_rl.models import CausalLM, FSDP2Strategy, LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import GRPO, PPO, Distillation, DistillationConfig, Objective, RolloutModule
from lit_rl.rewards.term import TermScore
from lit_rl.types import Completions, Judgement, Sampling

KL = Objective(kl_coef=0.1)
CONTROLLED = Objective(entropy_coef=0.01)


class SomeMissing(EvenBytes):
    """No value for a third of the problems, equal ones for another: a rank may have no row to train on."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        rows = zip(completions.problems, super().score(completions, judgements), strict=True)
        kinds = [(int("".join(filter(str.isdigit, problem.task_id))) % 3, score) for problem, score in rows]
        return [TermScore(None) if kind == 1 else TermScore(0.7) if kind == 2 else score for kind, score in kinds]


def policy(tokenizer: str, lora: bool = False, dtype: str = "float64", **model: Any) -> CausalLM:
    return Brief(config=TINY_QWEN2 | model, tokenizer=tokenizer, dtype=dtype, lora=LoRA(rank=2) if lora else None)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


MODULES: dict[str, Callable[[str], RolloutModule]] = {
    "grpo": lambda tokenizer: build(GRPO, policy(tokenizer, tie_word_embeddings=False), objective=KL),
    "grpo-controlled": lambda tokenizer: build(
        GRPO, policy(tokenizer), objective=CONTROLLED, baseline=GroupMean("batch_std")
    ),
    "grpo-lora": lambda tokenizer: build(GRPO, policy(tokenizer, lora=True), objective=KL),
    "distillation": lambda tokenizer: build(
        Distillation,
        policy(tokenizer, tie_word_embeddings=False),
        teacher=CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, dtype="float64", init_seed=5),
        hindsight=Longer(),
        distil=DistillationConfig(JSD(), reward_weight=0.5),
    ),
    "distillation-average": lambda tokenizer: build(
        Distillation,
        policy(tokenizer),
        teacher="reference",
        hindsight=Longer(),
        distil=DistillationConfig(JSD(beta=0.0)),
        refresh_reference_every=1,
        refresh_reference_share=0.3,
    ),
    "ppo": lambda tokenizer: build(PPO, policy(tokenizer), critic=SeparateCritic()),
    "ppo-shared": lambda tokenizer: build(PPO, policy(tokenizer, lora=True), critic=SharedCritic()),
}


def build(cls: Any, actor: CausalLM, **kwargs: Any) -> RolloutModule:
    """Five rollouts of two updates, in micro-batches, with a clipping norm that bites."""
    common: dict[str, Any] = {
        "sampling": Sampling(num_samples=4, max_tokens=6),
        "rewards": [SomeMissing()],
        "optimizer": sgd,
        "gradient_clip_norm": 0.05,
        "epochs": 2,
        "microbatch_size": 3,
        "max_rollouts": 5,
    }
    module: RolloutModule = cls(actor, **grouped(cls, **(common | kwargs)))
    return module


def strategy(name: Any) -> Any:
    """A strategy that gives up soon: a rank that waits is an error here."""
    if name in ("fsdp2", "offload"):
        return FSDP2Strategy(timeout_minutes=0.3, offload=name == "offload")
    return DDPStrategy(timeout=timedelta(seconds=20)) if name == "ddp" else name


def trainer_of(name: Any, folder: Path, devices: int, **kwargs: Any) -> pl.Trainer:
    given = {"strategy": strategy(name), "devices": devices, "enable_checkpointing": "callbacks" in kwargs}
    return quiet_trainer(folder, **given | kwargs)


def fit(module: RolloutModule, name: str, folder: Path, *, devices: int, global_batch: int = 2, **kwargs: Any) -> Any:
    """Train with the same problems per rollout whatever the number of ranks; the whole weights by name."""
    trainer = trainer_of(name, folder, devices, **kwargs)
    trainer.fit(module, Words(batch_size=global_batch // devices))
    return whole_weights(module)


def whole_weights(module: torch.nn.Module) -> dict[str, Any]:
    """All that learns, gathered, as NumPy arrays by name."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    return {n: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().numpy().copy() for n, p in named.items()}
