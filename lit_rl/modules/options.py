"""Arguments that every algorithm takes, as types: names and meaning are those of the base classes."""

from __future__ import annotations

from typing import TypedDict

from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lit_rl.engines.base import Engine
from lit_rl.execution.runner import ProgramRunner
from lit_rl.functional.masking import AggregateMode
from lit_rl.modules.base import RunnerFactory
from lit_rl.modules.mismatch import SamplerCheck
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardTerm
from lit_rl.rollout import Environment
from lit_rl.types import Sampling


class PolicyOptions(TypedDict, total=False):
    """Arguments of :class:`lit_rl.modules.PolicyModule`."""

    optimizer: OptimizerCallable
    lr_scheduler: LRSchedulerCallable | None
    gradient_clip_norm: float | None
    validation_sampling: dict[str, Sampling] | None
    predict_sampling: Sampling
    rewards: list[RewardTerm] | Composite | None
    sandbox: RunnerFactory | ProgramRunner | None
    engine: Engine | None
    sampler_check: SamplerCheck | None
    environment: Environment | None
    seed: int | None


class TextOptions(PolicyOptions, total=False):
    """Arguments of :class:`lit_rl.modules.TextModule`."""

    microbatch_size: int | None
    max_updates: int | None


class RolloutOptions(PolicyOptions, total=False):
    """Arguments of :class:`lit_rl.modules.RolloutModule`, without those for which algorithms have own defaults."""

    num_epochs: int
    num_minibatches: int
    microbatch_size: int | None
    max_tokens_per_microbatch: int | None
    aggregate: AggregateMode
    largest_kl: float | None
    refresh_reference_every: int | None
    max_rollouts: int | None
    max_infrastructure_failures: float
    staleness: int
