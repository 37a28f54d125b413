"""Rollouts: from problems to judged rows, by engine, environment and sandbox."""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports

if TYPE_CHECKING:
    from lit_rl.rollout.environment import Attempt as Attempt
    from lit_rl.rollout.environment import Environment as Environment
    from lit_rl.rollout.environment import SingleTurn as SingleTurn
    from lit_rl.rollout.hindsight import Hindsight as Hindsight
    from lit_rl.rollout.records import Evaluated as Evaluated
    from lit_rl.rollout.records import FinishedRollout as FinishedRollout
    from lit_rl.rollout.records import InfrastructureError as InfrastructureError
    from lit_rl.rollout.records import Judge as Judge
    from lit_rl.rollout.records import Rollout as Rollout
    from lit_rl.rollout.records import find_program as find_program
    from lit_rl.rollout.records import reference_answer as reference_answer
    from lit_rl.rollout.repair import Repair as Repair
    from lit_rl.rollout.rollout_collector import RolloutCollector as RolloutCollector
    from lit_rl.rollout.rollout_collector import RolloutConfig as RolloutConfig
    from lit_rl.rollout.rollout_collector import RunnerFactory as RunnerFactory
    from lit_rl.rollout.sampler_check import SamplerCheck as SamplerCheck
    from lit_rl.rollout.sampler_check import SamplerMismatchError as SamplerMismatchError
    from lit_rl.rollout.sampling_loop import PendingRollout as PendingRollout
    from lit_rl.rollout.sampling_loop import restore_conversations as restore_conversations
    from lit_rl.rollout.sampling_loop import sample_rows as sample_rows

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
