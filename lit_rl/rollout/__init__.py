"""Problems in, judged rows out: where engine, environment and sandbox meet."""

from lit_rl.rollout.collector import write_rows
from lit_rl.rollout.environment import Attempt, Environment, require_environment
from lit_rl.rollout.judge import InfrastructureError, Judge, find_program, require_infrastructure
from lit_rl.rollout.pending import PendingRollout, restore_rows
from lit_rl.rollout.records import Evaluated, FinishedRollout, Rollout
from lit_rl.rollout.repair import Repair
from lit_rl.rollout.sampler import Collect, RunnerFactory, Sampler
from lit_rl.rollout.sampler_check import SamplerCheck, SamplerMismatchError
from lit_rl.rollout.single_turn import SingleTurn
from lit_rl.rollout.watchers import RolloutWatcher, TrainedModule, notify_callbacks

__all__ = [
    "Attempt",
    "Collect",
    "Environment",
    "Evaluated",
    "FinishedRollout",
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
    "require_environment",
    "require_infrastructure",
    "restore_rows",
    "write_rows",
]
