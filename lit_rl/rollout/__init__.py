"""Rollouts: from problems to judged rows, by engine, environment and sandbox."""

from lit_rl.rollout.collector import PendingRollout, restore_rows, write_rows
from lit_rl.rollout.environment import Attempt, Environment, SingleTurn
from lit_rl.rollout.hindsight import Hindsight
from lit_rl.rollout.records import (
    Evaluated,
    FinishedRollout,
    InfrastructureError,
    Judge,
    Rollout,
    RolloutWatcher,
    TrainedModule,
    find_program,
    notify_callbacks,
    reference_answer,
    require_infrastructure,
)
from lit_rl.rollout.repair import Repair
from lit_rl.rollout.sampler import Collect, RunnerFactory, Sampler
from lit_rl.rollout.sampler_check import SamplerCheck, SamplerMismatchError

__all__ = [
    "Attempt",
    "Collect",
    "Environment",
    "Evaluated",
    "FinishedRollout",
    "Hindsight",
    "InfrastructureError",
    "Judge",
    "PendingRollout",
    "Repair",
    "Rollout",
    "RolloutWatcher",
    "RunnerFactory",
    "Sampler",
    "SamplerCheck",
    "SamplerMismatchError",
    "SingleTurn",
    "TrainedModule",
    "find_program",
    "notify_callbacks",
    "reference_answer",
    "require_infrastructure",
    "restore_rows",
    "write_rows",
]
