"""A task without programs, a module on a tiny policy, and a trainer: what is tested is the module's own arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from lit_rl.data import CorridorCritic, CorridorPolicy, CorridorReward, SortingPolicy, SortingReward
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import TokenTarget
from lit_rl.math.advantages import GAE
from lit_rl.models import CausalLM
from lit_rl.modules import (
    GRPO,
    PPO,
    CriticConfig,
    EvaluationConfig,
    Optimization,
    PolicyModule,
    RolloutConfig,
    RolloutModule,
    UpdateConfig,
)
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.signature_check import constructor_parameters
from lit_rl.types import Completions, Judgement, Problem, Sampling
from support.tiny_models import TINY_QWEN2


class Scored(RewardTerm):
    """One value for all rows, or one for each from a function of the rows."""

    def __init__(
        self, values: float | Callable[[Completions], Iterable[float | None]], name: str | None = "scored"
    ) -> None:
        super().__init__(name=name)
        self.values = values

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        values = self.values(completions) if callable(self.values) else [self.values] * len(completions)
        return [TermScore(value) for value in values]


class EvenBytes(RewardTerm):
    """Share of the completion's ids that are even: varied, and a policy can learn it."""

    default_name = "even"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        rows = zip(completions.completion_ids.tolist(), completions.lengths.tolist(), strict=True)
        return [TermScore(sum(i % 2 == 0 for i in ids[:n]) / n) for ids, n in rows]


class Brief(CausalLM):
    """Ends many completions early: every fifth byte ends one, so lengths are unequal."""

    def load(self) -> None:
        super().load()
        self.codec.eos_ids = frozenset(range(0, 256, 5))


class Words(TaskDataModule):
    """Prompts of unequal length."""

    name = "words"

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{split}{i}", "w" * (1 + i % 5), TokenTarget()) for i in range(12)]


GROUPS: dict[str, type] = {"update": UpdateConfig, "collect": RolloutConfig, "critic_update": CriticConfig}
SHORT = {"validation_sampling": ("evaluate", "sampling"), "predict_sampling": ("evaluate", "predict")}


def grouped(cls: type[PolicyModule], **options: Any) -> dict[str, Any]:
    """Arguments of an algorithm from settings without their groups, so that a test names only what it is about."""
    kinds = GROUPS | {
        "evaluate": EvaluationConfig,
        "update": UpdateConfig if issubclass(cls, RolloutModule) else Optimization,
    }
    kinds |= {"estimator": GAE} if issubclass(cls, PPO) else {}
    places = {one.name: (group, one.name) for group, kind in kinds.items() for one in reversed(fields(kind))}
    places |= {f"critic_{one.name}": ("critic_update", one.name) for one in fields(CriticConfig)} | SHORT
    places |= {one.name: ("update", one.name) for one in fields(kinds["update"])}
    found: dict[str, Any] = {}
    settings: dict[str, dict[str, Any]] = {}
    own = constructor_parameters(cls)
    for name, value in options.items():
        if name in own or name not in places:
            found[name] = value
        else:
            group, key = places[name]
            settings.setdefault(group, {})[key] = value
    return found | {group: kinds[group](**values) for group, values in settings.items()}


def build_module(
    tokenizer: str, cls: type[RolloutModule] = GRPO, model: dict[str, Any] | None = None, **kwargs: Any
) -> RolloutModule:
    """A module on a tiny policy in double precision, with plain SGD; settings as :func:`grouped` takes them."""
    policy = CausalLM(config=TINY_QWEN2 | (model or {}), tokenizer=tokenizer, dtype="float64")
    defaults: dict[str, Any] = {
        "sampling": Sampling(num_samples=4, max_tokens=6),
        "rewards": [EvenBytes()],
        "optimizer": lambda params: torch.optim.SGD(params, lr=0.5),
        "gradient_clip_norm": None,
    }
    if issubclass(cls, PPO) and "critic_update" not in kwargs:
        defaults["critic_learning_rate"] = None  # the policy's
    return cls(policy, **grouped(cls, **(defaults | kwargs)))


def fit(
    module: pl.LightningModule,
    folder: Path,
    *,
    data: TaskDataModule | None = None,
    ckpt_path: str | None = None,
    **kwargs: Any,
) -> pl.Trainer:
    """Train on the given task, or on :class:`Words`, three problems a rollout; other arguments are the trainer's."""
    trainer = quiet_trainer(folder, **kwargs)
    trainer.fit(module, data or Words(batch_size=3), ckpt_path=ckpt_path, weights_only=False)
    return trainer


def sorting(optimizer: Any, max_rollouts: int = 10, epochs: int = 1, **kwargs: Any) -> GRPO:
    """A run on ``Sorting``."""
    return GRPO(
        SortingPolicy(init_seed=0),
        sampling=Sampling(num_samples=16, max_tokens=3),
        rewards=[SortingReward()],
        max_rollouts=max_rollouts,
        update=UpdateConfig(optimizer=optimizer, gradient_clip_norm=None, epochs=epochs),
        **kwargs,
    )


def corridor(optimizer: Any, max_rollouts: int, sampling: Sampling, epochs: int = 1, **critic: Any) -> PPO:
    """A run on ``Corridor`` of five cells."""
    return PPO(
        CorridorPolicy(num_cells=5),
        critic=CorridorCritic(num_cells=5),
        sampling=sampling,
        rewards=[CorridorReward()],
        max_rollouts=max_rollouts,
        critic_update=CriticConfig(**{"gradient_clip_norm": None, "learning_rate": None} | critic),
        update=UpdateConfig(optimizer=optimizer, gradient_clip_norm=None, epochs=epochs),
    )


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


def at_start(module: Any) -> Any:
    """The module with the weights that its run begins with."""
    module.load_models()
    return module


def adam(parameters: Any) -> torch.optim.Optimizer:
    """An optimizer whose moments show every lost bit of a resumed run."""
    return torch.optim.Adam(parameters, lr=1e-2)


def quiet_trainer(folder: str | Path, **kwargs: Any) -> pl.Trainer:
    """A trainer that logs and saves nothing, and validates only if it is told to."""
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "default_root_dir": folder,
        "use_distributed_sampler": False,
        "num_sanity_val_steps": 0,
        "limit_val_batches": 0,
        "max_epochs": -1,
    }
    return pl.Trainer(**settings | kwargs)


class SaveAt(pl.Callback):
    """Saves a checkpoint when a rollout is done, as a run does on its way."""

    def __init__(self, rollout: int, path: Path) -> None:
        self.rollout, self.path = rollout, path

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *args: Any) -> None:
        if pl_module.clock.count == self.rollout:
            trainer.save_checkpoint(self.path)


def whole_and_resumed(make: Callable[[], Any], folder: Path, stop: int, **options: Any) -> tuple[Any, Any]:
    """The module of an undisturbed run, and that of one that begins at the checkpoint made when ``stop`` was done."""
    path = folder / f"{stop}.ckpt"
    whole, resumed = make(), make()
    fit(whole, folder, callbacks=[SaveAt(stop, path)], **options)
    fit(resumed, folder, ckpt_path=str(path), **options)
    return whole, resumed


def everything(module: pl.LightningModule) -> torch.Tensor:
    """All weights of the module that are no frozen reference as one vector."""
    return torch.cat([p.detach().flatten() for n, p in module.named_parameters() if "frozen_reference" not in n])


def weights(module: pl.LightningModule) -> torch.Tensor:
    """All weights of the policy as one vector."""
    policy: Any = module.policy
    return torch.cat([p.detach().flatten() for p in policy.model.parameters()])
