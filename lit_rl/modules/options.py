"""Arguments that every algorithm takes, as types: names and meaning are those of the base classes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TypedDict

from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lit_rl.engines.base import Engine
from lit_rl.execution.runner import ProgramRunner
from lit_rl.functional.masking import AggregateMode
from lit_rl.modules.base import RunnerFactory
from lit_rl.modules.mismatch import SamplerCheck
from lit_rl.modules.objective import Objective
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


_ELSEWHERE = {"num_generations": "num_samples", "max_completion_length": "max_tokens", "epsilon": "clip_low"}
"""Names in other libraries of what is part of sampling or objective here."""


def require_known(module: object, given: Mapping[str, object], options: type) -> None:
    """Check whether a module has the arguments that it hands on to its base class.

    Args:
        module: whose arguments they are.
        given: what it hands on.
        options: the type that lists what there is to hand on.

    Raises:
        TypeError: one is unknown; the message says where it belongs, or what may have been meant.
    """
    known = inspect.signature(type(module)).parameters
    for name in given.keys() - options.__annotations__.keys():
        meant = _ELSEWHERE.get(name, name)
        home = next((kind for kind in (Sampling, Objective) if meant in {one.name for one in fields(kind)}), None)
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f": help({type(module).__name__}) lists what it takes"
        if home is not None and home.__name__.lower() in known:
            hint = f": give {home.__name__.lower()}={home.__name__}({meant}=...)"
        raise TypeError(f"{type(module).__name__} has no argument {name}{hint}")
