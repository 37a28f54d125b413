"""Problems in, judged rows out: where engine, environment and sandbox meet."""

from lit_rl.rollout.collector import write_rows
from lit_rl.rollout.environment import Attempt, Environment, require_environment
from lit_rl.rollout.judge import InfrastructureError, Judge, find_program, require_infrastructure
from lit_rl.rollout.pending import PendingRollout, taken_up
from lit_rl.rollout.records import Evaluated, FinishedRollout, Rollout
from lit_rl.rollout.repair import Repair
from lit_rl.rollout.single_turn import SingleTurn
from lit_rl.rollout.watchers import RolloutWatcher, tell_watchers

__all__ = [
    "Attempt",
    "Environment",
    "Evaluated",
    "FinishedRollout",
    "InfrastructureError",
    "Judge",
    "PendingRollout",
    "Repair",
    "Rollout",
    "RolloutWatcher",
    "SingleTurn",
    "find_program",
    "require_environment",
    "require_infrastructure",
    "taken_up",
    "tell_watchers",
    "write_rows",
]
